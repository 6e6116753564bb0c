// JDMP during a run: it takes the measurements of each batch, and gives the plan of the next one, with a
// reason. A pure state machine without a clock (batches are counted, times are fields), so a simulator and a
// live coordinator use it in the same way.
//
//  data    of every batch: data_assignment.h with the latest measurements and the queues.
//  cuts    looked at every `cuts_every` batches, and when a device's speed has drifted by 15 %.
//  groups  every `groups_every` batches, when a device joins or leaves or the plan's time has drifted, and as
//  often as cuts where there are budgets.
//
// A look is a search (search.h) from the plan in use. Its result goes on a short list with earlier results,
// and every batch the best of the list is compared with the plan in use. It is adopted only if
//   gain a batch × batches that it is expected to hold > what migrating costs,
// where the holding time is learnt: how long the states of devices have lasted so far, the least over devices
// that changed since the last adoption. So a device that flips every few batches causes no migration. An
// adopted plan is on trial for a few batches; if they take longer than the old plan would have, it is rolled
// back and left alone for a while. Only a plan whose device has left, or has too little memory for it, is
// replaced at once.
//
// Invariant: current() passes CostModel::check for the measured cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/measurements.h"
#include "paceline/decisions/planner/plan_search.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/decisions/planner/queues.h"

namespace paceline::planner {

struct OnlineOptions {
  double v = 20;                     // Lyapunov's V
  std::int64_t cuts_every = 30;      // batches
  std::int64_t groups_every = 200;   // batches
  std::int64_t trial = 3;            // batches; 0: none
  double migration_ms = 500;         // cost of any change of stages, besides what devices then pull
  double least_gain = 0.03;          // share of a batch that other stages have to save; less is noise
  double drift = 0.15;               // relative change of a speed that counts as a change
  std::int64_t search_moves = 2000;  // moves of one search
  std::uint64_t seed = 1;
  bool alike_links = false;  // measurements.h
  bool all_compute = false;  // a replica that stays gets one sample at least; else it may wait for a batch
};

enum class DecisionKind { kKeep, kData, kCuts, kGroups, kRollBack };

struct Decision {
  DecisionKind kind = DecisionKind::kKeep;
  Plan plan;                // the plan of the next batch
  double predicted_ms = 0;  // its τ, without migrating
  double migration_ms = 0;  // once, before the batch; 0 if only data changes
  std::string reason;
};

class OnlinePlanner {
 public:
  // The first plan is the fastest; queues start empty. Errors: as make_plan.
  static absl::StatusOr<OnlinePlanner> create(Problem problem, const OnlineOptions& options);

  // Goes on with a plan that is in use. Errors: InvalidArgument if it does not fit this problem.
  static absl::StatusOr<OnlinePlanner> from(Problem problem, const OnlineOptions& options, const Plan& plan);

  // Takes in the measurements of a batch, and which devices came and left.
  void observe(const BatchObservation& observation);
  // The search to start now, if it is time for one. Call found() with its result.
  std::optional<PlanSearch> due_search();
  void found(const std::optional<Plan>& plan);
  // The plan from now on, from all measurements and searches. It keeps a plan with a missing device if no
  // other plan is known: a search is due then.
  Decision decide();

  // Decides only the samples, from the latest measurements and the queues; the replicas stay.
  void decide_data();

  // All of the above in one call. Errors: ResourceExhausted when the remaining devices cannot hold the model;
  // current() is then of no use until a later call gives a plan again.
  absl::StatusOr<Decision> after_batch(const BatchObservation& observation);

  // The device turned out to have no more than this for a plan. The current plan may be of no use now: a later call
  // replaces it.
  void limit_memory(std::int32_t device, std::int64_t bytes);

  const Plan& current() const { return plan_; }
  double predicted_ms() const { return predicted_ms_; }
  // Whether a device of the current plan has less memory than its stage needs, and all are here.
  bool lacks_memory() const { return all_here(plan_) && !usable(plan_); }
  // The problem with everything as it was last measured.
  const Problem& measured() const { return measurements_.problem(); }
  const Problem& initial() const { return measurements_.initial(); }
  const QueueState& queues() const { return queues_; }
  void restore(const QueueState& queues) { queues_ = queues; }
  std::int64_t batches() const { return batch_; }
  std::int64_t looks() const { return looks_; }
  std::int64_t migrations() const { return migrations_; }

 private:
  struct Trial {
    Plan old;
    std::int64_t left = 0;
    bool migrating = true;  // the first batch has the migration in it
    double measured_ms = 0;
    std::int64_t counted = 0;
  };
  struct Banned {
    Plan plan;
    std::int64_t until = 0;
  };

  OnlinePlanner(Problem problem, const OnlineOptions& options, const Planned& planned);

  void count_batch(const CostModel& model, const BatchObservation& observation);
  // Devices that have come or gone, and speeds that have drifted: groups and cuts are then due.
  void notice_membership(const BatchObservation& observation);
  void notice_drift(const Evaluator& evaluator);
  Goal goal() const { return Goal::weighed(queues_, measured().budgets, options_.v); }
  void remember(const Plan& plan);
  bool banned(const Plan& plan) const;
  bool all_here(const Plan& plan) const;
  // All its devices are here, and their memory holds it.
  bool usable(const Plan& plan) const;
  Decision choose(const Evaluator& evaluator);
  Decision replace_unusable(const Evaluator& evaluator);
  std::optional<Decision> end_trial(const Evaluator& evaluator);
  Decision adopt(const Evaluator& evaluator, Plan plan, DecisionKind kind, bool on_trial, std::string reason);
  Decision assign_data(const Evaluator& evaluator, std::string otherwise);
  double expected_hold() const;

  OnlineOptions options_;
  Measurements measurements_;
  QueueState queues_;
  Plan plan_;
  double predicted_ms_ = 0;
  double looked_ms_ = 0;           // the prediction when groups were last due
  std::vector<double> reference_;  // slowness at its last change
  std::vector<HoldTime> holds_;    // indexed by device
  HoldTime plan_hold_;
  bool lowered_memory_ = false;                 // a plan that was possible may not be any more
  bool groups_due_ = false, cuts_due_ = false;  // something changed that no search has looked at yet
  std::vector<Plan> list_;                      // the latest last
  std::vector<Banned> banned_;
  std::optional<Trial> trial_;
  std::int64_t batch_ = 0, adopted_at_ = 0, cuts_at_ = 0, groups_at_ = 0;
  std::int64_t looks_ = 0, migrations_ = 0;
};

}  // namespace paceline::planner
