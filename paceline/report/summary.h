// What a person wants to know of a run in numbers: plain values, made by RunStats, read by the progress line,
// the tables, the metrics and the report. Times are those of the job's clock. A std::optional is empty where
// nothing is known yet (no evaluation, nobody waited or computed yet).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/control/run_listener.h"
#include "paceline/control/target.h"
#include "paceline/planner/costs.h"
#include "paceline/planner/plan.h"
#include "paceline/report/update_times.h"

namespace paceline::report {

// Where a run happened: it names the seconds. A simulation has no gradients, hence no losses.
enum class World { kSimulated, kVirtual, kLive };

using control::Target;

struct AskedIteration {
  std::string replica;
  Clock clock;
  Time start;
  std::int64_t samples = 0;
  std::int64_t steps = 0;  // local ones; 0: it is one step
};
using AskedPace = std::function<std::optional<Duration>(const AskedIteration&)>;

// How far the weights that gradients were computed on were from those they were committed to, in multiples of
// G, the largest norm of a gradient; and h·d, which bounds that for SGD: h = η/(1 − momentum), d the delay in
// bulk rounds (docs/theory.md). Measured where all weights are in one process: in virtual time.
struct UsedWeights {
  double gradient = 0;  // G
  double mean = 0, most = 0;
  double mean_bound = 0, most_bound = 0;
  friend bool operator==(const UsedWeights&, const UsedWeights&) = default;
};

// What no fact tells.
struct RunInfo {
  std::string title;   // of the job
  std::string policy;  // as a user writes it, and what else is done than plain data parallelism
  World world = World::kLive;
  std::int64_t total_samples = 0;  // over all epochs
  std::optional<Target> target;
  std::int64_t epoch_samples = 0;                  // 0: not known
  std::optional<std::int64_t> staleness_bound{};   // S, where the policy promises one
  std::vector<std::string> devices{};              // of a planned run; names, as plans number them
  std::int32_t layers = 0;                         // of the model, as units
  std::int64_t attempts = 1;                       // how often it was begun, or gone on with
  std::int64_t lost_commits = 0;                   // between them: seen by somebody, and done again
  std::map<std::string, std::int64_t> restarts{};  // attempts after the first, by a bounded number of reasons
  // How long an iteration of a replica was to take, by its name, where the job says so.
  AskedPace asked_pace{};
  std::uint64_t seed = 1;
  std::optional<UsedWeights> used_weights{};  // of the latest attempt
  std::optional<planner::CostKind> budget{};
};

enum class Doing { kJoining, kComputing, kWaiting, kParked, kGone };

// Of a device that was to take a given time an iteration.
struct PaceSummary {
  double asked_s = 0;  // mean
  double taken_s = 0;
  bool held = true;

  friend bool operator==(const PaceSummary&, const PaceSummary&) = default;
};

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
  std::optional<PaceSummary> pace{};
};

// Each commit is a group of gradients that became one update.
struct GroupSummary {
  std::int64_t gradients = 0;          // committed here
  std::optional<double> size_mean;     // gradients a commit
  std::optional<double> size_of_late;  // the same, of the latest commits
  std::int64_t size_max = 0;
  bool between = false;  // some had several gradients, but not one of every replica
  std::int64_t latest_size = 0;
  std::string latest_cause;  // cause_of()
  double learning_rate_max = 0;
  double fraction_max = 0;  // of the bulk, as the updates are scaled
};

// How far the weights that a gradient was computed on were from those it was committed to, at most: with
// gradients of norm ‖g‖ ≤ G, η·q·τ·G for plain SGD (momentum μ, without look-ahead: up to 1 / (1 − μ) times).
// Here in multiples of G, with the largest η and q of the run.
struct Deviation {
  std::optional<double> bound;  // for the staleness τ = S that the policy allows
  double measured = 0;          // for the largest τ there was
};

// Of whole batches that a planned run did, without those that have a change of plans in them.
struct BatchSums {
  std::int64_t count = 0;
  double predicted_ms = 0;
  double measured_ms = 0;

  std::optional<double> predicted_mean_ms() const { return mean(predicted_ms); }
  std::optional<double> measured_mean_ms() const { return mean(measured_ms); }

 private:
  std::optional<double> mean(double sum) const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

struct PlanSummary {
  planner::Plan plan;                                  // in use
  std::int64_t re_plans = 0;                           // changes of replicas or cuts
  BatchSums batches;                                   // of the whole run
  double late_predicted_ms = 0, late_measured_ms = 0;  // means of the latest batches
  std::optional<double> error;                         // mean of |predicted − measured| / measured
  std::optional<control::Spending> spending{};         // cost and allowed of the whole run, the queue now
  double queue_max = 0;
};

// Of a simulation whose updates take time.
struct UpdateSummary {
  double busy_share = 0;     // of the time, in which the servers made updates
  double queued_mean_s = 0;  // that an update waited for those before

  friend bool operator==(const UpdateSummary&, const UpdateSummary&) = default;
};

struct Summary {
  RunInfo run;
  bool finished = false;
  std::string finished_why;
  Time at;                      // of this summary; of the end, once there is one
  double elapsed_s = 0;         // since the first release
  std::int64_t samples = 0;     // committed in all (a resumed run starts with some)
  double samples_per_s = 0;     // committed here, over elapsed_s
  std::int64_t iterations = 0;  // finished by all replicas
  std::int64_t commits = 0;
  double epochs = 0;  // committed here; 0 where the length of an epoch is not known
  GroupSummary groups;
  // Time from ready to release over that and the time from release to ready, of all replicas together. Being
  // parked or not released yet is neither.
  std::optional<double> wait_share;
  std::int64_t gap = 0;                  // now, of the fastest
  std::int64_t gap_max = 0;              // of any replica when it became ready
  std::optional<double> staleness_mean;  // of the committed contributions
  std::int64_t staleness_max = 0;
  std::optional<double> training_loss;  // of the latest commits (LossAverage)
  Metrics training_metrics{};           // the user's own, of the training
  std::optional<control::Evaluated> last_evaluation;
  std::optional<double> best_accuracy;
  std::optional<double> best_loss;               // on the test set
  std::optional<control::Evaluated> met_target;  // the first evaluation that did
  std::vector<ReplicaSummary> replicas;          // ascending; those that left, too
  std::optional<PlanSummary> plan;               // of a planned run
  std::optional<UpdateSummary> updates{};
  std::vector<MeasuredUpdates> measured_updates{};  // by server; none where nobody measured them

  std::optional<double> time_to_target_s() const {
    return met_target ? std::optional(to_seconds(met_target->at)) : std::nullopt;
  }
  std::int64_t replicas_live() const;
  // That there were, by name: one that came again after a fault is a replica of its own, and no other name.
  std::int64_t replicas_by_name() const;
  // At the mean rate so far. Nothing before the first commit.
  std::optional<double> time_left_s() const;
  // Updates of the global weights an epoch, and what they would be if each gradient were one (ASP).
  std::optional<double> commits_per_epoch() const;
  std::optional<double> gradients_per_epoch() const;
  // Nothing before the first commit.
  std::optional<Deviation> deviation() const;
};

}  // namespace paceline::report
