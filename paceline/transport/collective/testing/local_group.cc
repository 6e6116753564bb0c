#include "paceline/transport/collective/testing/local_group.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/transport/collective/progress.h"

namespace paceline::collective::testing {

// The way of one member to the others.
class LocalGroup::View final : public Fabric {
 public:
  View(LocalGroup& group, int rank) : group_(group), rank_(rank) {}

  std::optional<std::int64_t> finished(int peer) override {
    const Seat& seat = group_.seat(member(peer));
    if (!seat.alive) return std::nullopt;
    const auto steps = steps_in(seat.word, group_.attempt_);
    if (!steps || group_.rng_.below(2) == 0) return steps;
    return static_cast<std::int64_t>(group_.rng_.below(static_cast<std::uint64_t>(*steps) + 1));
  }
  const float* read(int rank, Source source, Range range) override {
    const Seat& seat = group_.seat(member(rank));
    PACELINE_CHECK(seat.alive, "member {} is read after its death", member(rank));
    const auto& input = group_.inputs_[static_cast<std::size_t>(member(rank))];
    return (source == Source::kInput ? input : seat.accumulator).data() + range.begin;
  }
  float* write(Range range) override { return group_.seat(member(rank_)).accumulator.data() + range.begin; }
  void publish(std::int64_t finished) override {
    group_.seat(member(rank_)).word = progress_word(group_.attempt_, finished);
  }

 private:
  int member(int rank) const { return group_.members_[static_cast<std::size_t>(rank)]; }
  LocalGroup& group_;
  const int rank_;
};

struct LocalGroup::Mover {
  Mover(LocalGroup& group, int rank, const std::vector<float>& weights)
      : member(group.members_[static_cast<std::size_t>(rank)]),
        view(group, rank),
        execution(group.plan_, rank, weights, view) {}
  const int member;
  View view;
  Execution execution;
};

LocalGroup::LocalGroup(const std::vector<std::vector<float>>& inputs, int members, std::int64_t elements,
                       std::uint64_t seed)
    : inputs_(inputs), seats_(static_cast<std::size_t>(members)), rng_(seed) {
  plan_.elements = elements;
  for (Seat& one : seats_) one.accumulator.resize(static_cast<std::size_t>(elements));
}
LocalGroup::~LocalGroup() = default;

std::vector<std::unique_ptr<LocalGroup::Mover>> LocalGroup::take_ranks() {
  members_.clear();
  std::vector<float> weights;
  for (int member = 0; member < static_cast<int>(seats_.size()); ++member) {
    if (!alive(member)) continue;
    members_.push_back(member);
    weights.push_back(weight(member));
  }
  plan_.ranks = static_cast<int>(members_.size());
  std::vector<std::unique_ptr<Mover>> movers;
  for (int rank = 0; rank < plan_.ranks; ++rank)
    movers.push_back(std::make_unique<Mover>(*this, rank, weights));
  return movers;
}

Standing::State LocalGroup::move(Mover& mover, const std::optional<Death>& death) {
  const auto finished = [&] { return steps_in(seat(mover.member).word, attempt_).value(); };
  const bool dies = death && death->member == mover.member;
  std::int64_t most = rng_.below(2) == 0 ? Execution::kAll : 1;
  if (dies) most = std::min(most, death->after_steps - finished());
  const Standing::State state = mover.execution.advance(most).state;
  if (dies && finished() == death->after_steps) seat(mover.member).alive = false;
  return state;
}

bool LocalGroup::attempt(Algorithm algorithm, Phases phases, std::int64_t chunk, std::optional<Death> death) {
  plan_.algorithm = algorithm;
  plan_.phases = phases;
  plan_.chunk = chunk;
  ++attempt_;
  std::vector<std::unique_ptr<Mover>> going = take_ranks();
  bool whole = true;
  while (!going.empty()) {
    const auto at = going.begin() + static_cast<std::ptrdiff_t>(rng_.below(going.size()));
    const Standing::State state = move(**at, death);
    // All members begin again once one of them has noticed a death.
    if (state == Standing::kPeerGone) return false;
    const bool dead = !alive((*at)->member);
    if (dead && state != Standing::kDone) whole = false;
    if (dead || state == Standing::kDone) going.erase(at);
  }
  return whole;
}

}  // namespace paceline::collective::testing
