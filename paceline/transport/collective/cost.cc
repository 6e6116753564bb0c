#include "paceline/transport/collective/cost.h"

#include <algorithm>
#include <optional>

#include "paceline/base/check.h"

namespace paceline::collective {

namespace {

constexpr std::int64_t kBytes = sizeof(float);

// One rank on its way through its steps.
struct Rank {
  std::vector<Step> steps;
  std::vector<Duration> ends;  // end of each step that is done
  Duration up_free{0};
};

struct Model {
  std::span<const LinkRate> links;
  std::vector<Rank> ranks;

  // The time at which the next step of a rank can start; nothing while its peer has not been modelled so far.
  std::optional<Duration> start(std::size_t rank) const;
  void carry_out(std::size_t rank, Duration start);
};

std::optional<Duration> Model::start(std::size_t rank) const {
  const Rank& own = ranks[rank];
  if (own.ends.size() == own.steps.size()) return std::nullopt;
  const Step& step = own.steps[own.ends.size()];
  const Duration free = own.ends.empty() ? Duration::zero() : own.ends.back();
  const auto peer = static_cast<std::size_t>(step.peer);
  if (peer == rank) return free;
  const auto needs = static_cast<std::size_t>(step.needs);
  if (ranks[peer].ends.size() < needs) return std::nullopt;
  const Duration there = needs == 0 ? Duration::zero() : ranks[peer].ends[needs - 1];
  return std::max({free, ranks[peer].up_free, there + links[rank].latency});
}

void Model::carry_out(std::size_t rank, Duration start) {
  Rank& own = ranks[rank];
  const Step& step = own.steps[own.ends.size()];
  const auto peer = static_cast<std::size_t>(step.peer);
  if (peer == rank) return own.ends.push_back(start);
  const double rate = std::min(links[rank].bytes_per_second, links[peer].bytes_per_second);
  const Duration end = start + bounded_seconds(static_cast<double>(step.range.size() * kBytes) / rate);
  ranks[peer].up_free = end;
  own.ends.push_back(end);
}

}  // namespace

std::vector<Traffic> traffic(const Plan& plan) {
  std::vector<Traffic> all(static_cast<std::size_t>(plan.ranks));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    for (const Step& step : steps_of(plan, rank)) {
      if (step.peer == rank) continue;
      all[static_cast<std::size_t>(rank)].down += step.range.size() * kBytes;
      all[static_cast<std::size_t>(step.peer)].up += step.range.size() * kBytes;
    }
  }
  return all;
}

Duration time_of(const Plan& plan, std::span<const LinkRate> links) {
  PACELINE_CHECK(static_cast<int>(links.size()) == plan.ranks, "{} links for {} ranks", links.size(),
                 plan.ranks);
  Model model{links, std::vector<Rank>(links.size())};
  for (std::size_t rank = 0; rank < links.size(); ++rank)
    model.ranks[rank].steps = steps_of(plan, static_cast<int>(rank));
  Duration last{0};
  // The transfer that can start first goes first, as on links.
  while (true) {
    std::optional<Duration> first;
    std::size_t who = 0;
    for (std::size_t rank = 0; rank < links.size(); ++rank) {
      const auto start = model.start(rank);
      if (start && (!first || *start < *first)) {
        first = start;
        who = rank;
      }
    }
    if (!first) return last;
    model.carry_out(who, *first);
    last = std::max(last, model.ranks[who].ends.back());
  }
}

}  // namespace paceline::collective
