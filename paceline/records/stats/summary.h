// The numbers of a run that people want to know: plain values, made by RunStats, read by the progress line,
// the tables, the metrics and the report. Times are those of the job's clock. A std::optional is empty while
// the value is not known (no evaluation yet, nobody waited or computed yet).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/control/target.h"
#include "paceline/decisions/planner/costs.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/records/stats/update_times.h"

namespace paceline::report {

// The world of a run, which gives its seconds their name. A simulation has no gradients, hence no losses.
enum class World { kSimulated, kVirtual, kLive };
std::string name_of(World world);  // "virtual"

using control::Target;

struct AskedIteration {
  std::string replica;
  Clock clock;
  Time start;
  std::int64_t samples = 0;
  std::int64_t steps = 0;  // local steps; 0: a single step
};
using AskedPace = std::function<std::optional<Duration>(const AskedIteration&)>;

// The distance between the weights that gradients were computed on and those they were committed to, in
// multiples of G, the largest norm of a gradient; and h·d, which bounds it for SGD: h = η/(1 − momentum), d
// the delay in bulk rounds (docs/theory.md). Measured only in virtual time, with all weights in one process.
struct UsedWeights {
  double gradient = 0;  // G
  double mean = 0, most = 0;
  double mean_bound = 0, most_bound = 0;
  friend bool operator==(const UsedWeights&, const UsedWeights&) = default;
};

// Facts about a run that its journal's events do not have.
struct RunInfo {
  std::string title;   // the job's name
  std::string policy;  // the policy as a user writes it, and any mode beyond plain data parallelism
  World world = World::kLive;
  std::int64_t total_samples = 0;  // over all epochs; 0: not known
  std::optional<Target> target;
  std::int64_t epoch_samples = 0;                 // 0: not known
  std::optional<std::int64_t> staleness_bound{};  // S, if the policy promises a bound
  std::vector<std::string> devices{};  // names of a planned run's devices, indexed by their numbers in plans
  std::int32_t layers = 0;             // the model's number of units
  std::int64_t attempts = 1;           // how often the run was begun or continued
  // commits that somebody saw before an attempt ended, and that were done again
  std::int64_t lost_commits = 0;
  std::map<std::string, std::int64_t> restarts{};  // attempts after the first, by a bounded number of reasons
  // How long an iteration of a replica should take, by its name; nothing if the job does not say.
  AskedPace asked_pace{};
  std::uint64_t seed = 1;
  // The latest attempt ended because its weights were no finite numbers. Its evaluations are of the weights before.
  bool diverged = false;
  std::optional<UsedWeights> used_weights{};  // the latest attempt's
  std::optional<planner::CostKind> budget{};
};

// The time until `total` samples are committed, in seconds; nothing if that cannot be known.
std::optional<double> seconds_left(std::int64_t committed, std::int64_t total, double samples_per_s);

// kEnded: the run is over, and the replica had not left it.
enum class Doing { kJoining, kComputing, kWaiting, kParked, kGone, kEnded };

// True if the replica has an iteration to do or waits for one.
inline bool works(Doing doing) {
  return doing == Doing::kJoining || doing == Doing::kComputing || doing == Doing::kWaiting;
}

// A device's pace: the asked and the actual time of an iteration.
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
  std::string why;              // why it is gone or parked
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
  std::optional<double> size_of_late;  // the same over the latest commits
  std::int64_t size_max = 0;
  bool between = false;  // some commits had several gradients, but not one of every replica
  std::int64_t latest_size = 0;
  std::string latest_cause;  // cause_of()
  double learning_rate_max = 0;
  double fraction_max = 0;  // the largest part of the bulk in one update
};

// The largest distance between the weights that a gradient was computed on and those it was committed to:
// with gradients of norm ‖g‖ ≤ G it is η·q·τ·G for plain SGD (momentum μ, without look-ahead: up to 1 / (1 −
// μ) times). Here in multiples of G, with the largest η and q of the run.
struct Deviation {
  std::optional<double> bound;  // for the staleness τ = S that the policy allows
  double measured = 0;          // for the largest τ in the run
};

// Sums over the whole batches of a planned run, without those that contain a change of plan.
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
  BatchSums batches;                                   // the whole run's
  double late_predicted_ms = 0, late_measured_ms = 0;  // means of the latest batches
  std::optional<double> error;                         // mean of |predicted − measured| / measured
  std::optional<control::Spending> spending{};  // cost and allowed sum over the whole run, the queue now
  double queue_max = 0;
};

// The servers of a simulation whose updates take time.
struct UpdateSummary {
  double busy_share = 0;     // the part of the time in which the servers made updates
  double queued_mean_s = 0;  // how long an update waited for those before it

  friend bool operator==(const UpdateSummary&, const UpdateSummary&) = default;
};

struct Summary {
  RunInfo run;
  bool finished = false;
  std::string finished_why;
  std::optional<control::FinishCause> finish_cause{};  // nothing before the end
  Time at;                      // the time of this summary; after the end, the time of the end
  double elapsed_s = 0;         // since the first release
  std::int64_t samples = 0;     // committed in all (a resumed run starts with some)
  double samples_per_s = 0;     // committed here, over elapsed_s
  std::int64_t iterations = 0;  // finished by all replicas
  std::int64_t commits = 0;
  double epochs = 0;  // committed here; 0 if the length of an epoch is not known
  GroupSummary groups;
  // The time from ready to release, divided by the time from release to release, over all replicas. Time in
  // which a replica is parked or not released yet does not count.
  std::optional<double> wait_share;
  std::int64_t gap = 0;                  // the fastest replica's, now
  std::int64_t gap_max = 0;              // the largest gap of any replica when it became ready
  std::optional<double> staleness_mean;  // over the committed contributions
  std::int64_t staleness_max = 0;
  std::optional<double> training_loss;  // the latest commits' (LossAverage)
  Metrics training_metrics{};           // the user's own, averaged over the training
  std::optional<control::Evaluated> last_evaluation;
  std::optional<double> best_accuracy;
  std::optional<double> best_loss;               // on the test set
  std::optional<control::Evaluated> met_target;  // the first evaluation that did
  std::vector<ReplicaSummary> replicas;          // ascending; replicas that left included
  std::optional<PlanSummary> plan;               // present in a planned run
  std::optional<UpdateSummary> updates{};
  std::vector<MeasuredUpdates> measured_updates{};  // ascending by server; empty if nobody measured updates

  std::optional<double> time_to_target_s() const {
    return met_target ? std::optional(to_seconds(met_target->at)) : std::nullopt;
  }
  // The training is over: there is nothing left to train, or it diverged.
  bool is_over() const { return run.diverged || is_whole(); }
  // The run came to the end that its job wants: every sample is committed, or the target is reached.
  bool is_whole() const {
    return !run.diverged && finish_cause && *finish_cause != control::FinishCause::kStopped;
  }
  std::int64_t replicas_live() const;
  // The replicas of the plan in use; without a plan all so far, by name: a replica that came again after a fault has
  // its own number but the same name.
  std::int64_t replicas_in_all() const;
  // Seconds at the mean rate so far. Nothing before the first commit.
  std::optional<double> time_left_s() const;
  // Updates of the global weights an epoch, and their number if each gradient were an update of its own
  // (ASP).
  std::optional<double> commits_per_epoch() const;
  std::optional<double> gradients_per_epoch() const;
  // Nothing before the first commit.
  std::optional<Deviation> deviation() const;
};

}  // namespace paceline::report
