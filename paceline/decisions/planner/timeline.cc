#include "paceline/decisions/planner/timeline.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/stage_turns.h"

namespace paceline::planner {

namespace {

constexpr double kNotYet = -1;

// One direction of a link between two devices.
struct Way {
  double free = 0;

  // The time of arrival.
  double send(double ready, const Link& link, double bytes) {
    free = std::max(free, ready) + link.sending_ms(bytes);
    return free + link.latency_ms;
  }
};

// A device of a stage, which takes micro-batches turn, turn + width, …
struct Worker {
  std::size_t turn = 0;
  std::size_t count = 0;  // its micro-batches
  std::size_t warm_up = 0;
  std::size_t forwards = 0;   // done
  std::size_t backwards = 0;  // done
  double free = 0;
};

struct Stage {
  std::vector<Worker> workers;
  std::vector<double> down, up;  // indexed by micro-batch: when its forward and its backward pass can start
  std::vector<Way> from_before, back;  // indexed like StageTimes::links

  std::size_t width() const { return workers.size(); }
};

std::vector<Stage> at_the_start(const PipelineTimes& times, std::size_t count) {
  std::vector<std::size_t> widths;
  for (const StageTimes& stage : times.stages) widths.push_back(stage.forward_ms.size());
  const std::vector<std::int64_t> kept = kept_at_once(widths);
  std::vector<Stage> stages(widths.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage& stage = stages[s];
    for (std::size_t turn = 0; turn < widths[s]; ++turn) {
      const auto own = static_cast<std::size_t>(in_turn(static_cast<std::int64_t>(count), turn, widths[s]));
      stage.workers.push_back({.turn = turn, .count = own, .warm_up = static_cast<std::size_t>(kept[s] - 1)});
    }
    stage.down.assign(count, s == 0 ? 0 : kNotYet);
    stage.up.assign(count, kNotYet);
    stage.from_before.resize(times.stages[s].links.size());
    stage.back.resize(times.stages[s].links.size());
  }
  return stages;
}

class Course {
 public:
  Course(const PipelineTimes& times, std::size_t count, double last)
      : times_(times), count_(count), last_(last), stages_(at_the_start(times, count)) {}

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        for (Worker& worker : stages_[s].workers) {
          while (step(s, worker)) moved = true;
        }
      }
    }
    double end = 0;
    for (const Stage& stage : stages_) {
      for (const Worker& worker : stage.workers) {
        PACELINE_CHECK(worker.backwards == worker.count, "a pipeline of {} stages stood still",
                       stages_.size());
        end = std::max(end, worker.free);
      }
    }
    return end;
  }

 private:
  // Runs the device's next step if its inputs are there.
  bool step(std::size_t s, Worker& worker) {
    Stage& stage = stages_[s];
    const StageTimes& times = times_.stages[s];
    const bool forward =
        worker.forwards < worker.count && worker.forwards <= worker.backwards + worker.warm_up;
    const std::size_t nth = forward ? worker.forwards : worker.backwards;
    if (nth == worker.count) return false;
    const std::size_t m = worker.turn + nth * stage.width();
    const double ready = (forward ? stage.down : stage.up)[m];
    if (ready == kNotYet) return false;
    worker.free = std::max(worker.free, ready) +
                  (forward ? times.forward_ms : times.backward_ms)[worker.turn] * share(m);
    ++(forward ? worker.forwards : worker.backwards);
    if (forward) {
      send_on(s, m, worker.free);
    } else if (s > 0) {
      const auto [way, bytes] = between(s - 1, m);
      stages_[s - 1].up[m] = stage.back[way].send(worker.free, times.links[way], bytes);
    }
    return true;
  }

  void send_on(std::size_t s, std::size_t m, double ready) {
    if (s + 1 == stages_.size()) {
      stages_[s].up[m] = ready;
      return;
    }
    const auto [way, bytes] = between(s, m);
    Stage& next = stages_[s + 1];
    next.down[m] = next.from_before[way].send(ready, times_.stages[s + 1].links[way], bytes);
  }

  // The link to the next stage that a micro-batch takes, and its bytes.
  std::pair<std::size_t, double> between(std::size_t s, std::size_t m) const {
    const std::size_t from = stages_[s].width(), to = stages_[s + 1].width();
    return {m % to * from + m % from, times_.stages[s + 1].bytes * share(m)};
  }

  double share(std::size_t m) const { return m + 1 == count_ ? last_ : 1.0; }

  const PipelineTimes& times_;
  const std::size_t count_;
  const double last_;
  std::vector<Stage> stages_;
};

}  // namespace

double pipeline_ms(const PipelineTimes& times, std::int64_t micro_batches, double last) {
  PACELINE_CHECK(micro_batches >= 1 && last > 0 && last <= 1, "{} micro-batches, the last of {}",
                 micro_batches, last);
  return Course(times, static_cast<std::size_t>(micro_batches), last).run();
}

}  // namespace paceline::planner
