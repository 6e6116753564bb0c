// What a person wants to know of a run in numbers: plain values, made by RunStats, read by the progress line,
// the tables, the metrics and the report. Times are those of the job's clock. A std::optional is empty where
// nothing is known yet (no evaluation, nobody waited or computed yet).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/control/run_listener.h"
#include "paceline/control/target.h"

namespace paceline::report {

// Where a run happened: it names the seconds. A simulation has no gradients, hence no losses.
enum class World { kSimulated, kVirtual, kLive };

using control::Target;

// What no fact tells.
struct RunInfo {
  std::string title;   // of the job
  std::string policy;  // as a user writes it
  World world = World::kLive;
  std::int64_t total_samples = 0;  // over all epochs
  std::optional<Target> target;
};

enum class Doing { kJoining, kComputing, kWaiting, kParked, kGone };

struct ReplicaSummary {
  ReplicaId replica;
  std::string name;
  Doing doing = Doing::kJoining;
  std::string why;              // it is gone or parked
  std::int64_t iterations = 0;  // finished
  std::int64_t discarded = 0;   // finished and never to be committed
  std::int64_t samples = 0;     // committed
  std::optional<double> mean_compute_s;
  std::optional<double> wait_share;
  std::optional<double> mean_staleness;
};

struct Summary {
  RunInfo run;
  bool finished = false;
  std::string finished_why;
  Time at;                      // of this summary; of the end, once there is one
  double elapsed_s = 0;         // since the first release
  std::int64_t samples = 0;     // committed, whoever did (a resumed run starts with some)
  double samples_per_s = 0;     // committed here, over elapsed_s
  std::int64_t iterations = 0;  // finished by all replicas
  std::int64_t commits = 0;
  // Time from ready to release over that and the time from release to ready, of all replicas together. Being
  // parked or not released yet is neither.
  std::optional<double> wait_share;
  std::int64_t gap = 0;                  // now, of the fastest
  std::int64_t gap_max = 0;              // of any replica when it became ready
  std::optional<double> staleness_mean;  // of the committed contributions
  std::int64_t staleness_max = 0;
  std::optional<double> training_loss;  // of the latest commits (LossAverage)
  std::optional<control::Evaluated> last_evaluation;
  std::optional<double> best_accuracy;
  std::optional<control::Evaluated> met_target;  // the first evaluation that did
  std::vector<ReplicaSummary> replicas;          // ascending; those that left, too

  std::optional<double> time_to_target_s() const {
    return met_target ? std::optional(to_seconds(met_target->at)) : std::nullopt;
  }
  std::int64_t replicas_live() const;
  // At the mean rate so far. Nothing before the first commit.
  std::optional<double> time_left_s() const;
};

}  // namespace paceline::report
