#include "paceline/planner/timeline.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::planner {

namespace {

constexpr double kNotYet = -1;

// When micro-batches arrive at a stage: all at the start, or as the link brings them.
struct Arrivals {
  std::vector<double> at;
  double link_free = 0;

  explicit Arrivals(std::int64_t micro_batches, double start)
      : at(static_cast<std::size_t>(micro_batches), start) {}
  void send(std::size_t m, double ready, const Link& link, double bytes) {
    link_free = std::max(link_free, ready) + link.sending_ms(bytes);
    at[m] = link_free + link.latency_ms;
  }
};

struct Stage {
  std::size_t warm_up = 0;
  std::size_t forwards = 0;   // done
  std::size_t backwards = 0;  // done
  double free = 0;
};

}  // namespace

double pipeline_ms(const PipelineTimes& times, std::int64_t micro_batches, double last) {
  PACELINE_CHECK(micro_batches >= 1 && last > 0 && last <= 1, "{} micro-batches, the last of {}",
                 micro_batches, last);
  const std::size_t stages = times.forward_ms.size();
  const auto count = static_cast<std::size_t>(micro_batches);
  std::vector<Stage> at(stages);
  std::vector<Arrivals> down, up;  // what forwards and backwards of a stage wait for
  for (std::size_t s = 0; s < stages; ++s) {
    at[s].warm_up = std::min(stages - 1 - s, count);
    down.emplace_back(micro_batches, s == 0 ? 0 : kNotYet);
    up.emplace_back(micro_batches, kNotYet);
  }
  const auto share = [&](std::size_t m) { return m + 1 == count ? last : 1.0; };
  // Runs the stage's next step if what it waits for is there.
  const auto step = [&](std::size_t s) {
    Stage& stage = at[s];
    const bool forward = stage.forwards < count && stage.forwards <= stage.backwards + stage.warm_up;
    const std::size_t m = forward ? stage.forwards : stage.backwards;
    if (m == count) return false;
    const double ready = forward ? down[s].at[m] : up[s].at[m];
    if (ready == kNotYet) return false;
    stage.free = std::max(stage.free, ready) + (forward ? times.forward_ms : times.backward_ms)[s] * share(m);
    if (forward) {
      ++stage.forwards;
      if (s + 1 == stages) {
        up[s].at[m] = stage.free;
      } else {
        down[s + 1].send(m, stage.free, times.links[s], times.bytes[s] * share(m));
      }
    } else {
      ++stage.backwards;
      if (s > 0) up[s - 1].send(m, stage.free, times.links[s - 1], times.bytes[s - 1] * share(m));
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      while (step(s)) moved = true;
    }
  }
  double end = 0;
  for (const Stage& stage : at) end = std::max(end, stage.free);
  return end;
}

}  // namespace paceline::planner
