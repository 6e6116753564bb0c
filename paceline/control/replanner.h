// What a planned run tells its planner, and when: what the stages of a batch really took, and which devices
// came and went. Its host, live or in virtual time, carries out what comes back. Pure: like a policy it knows
// no clock.
//
// A batch is over when every replica has finished an iteration since the last one: under BSP, a commit.
// What the planner cannot see is taken to be synchronizing: a batch's time without its slowest replica's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/control/planned_run.h"
#include "paceline/planner/online_planner.h"

namespace paceline::control {

struct ReplannerOptions {
  planner::Problem problem;
  planner::Plan plan;       // in use
  bool plans_anew = false;  // else the plan stays, and batches are only measured
  double migration_ms = 0;  // beside what devices pull
  std::uint64_t seed = 1;
  // Where the problem has a budget: what time counts for against it, and how far it has been run ahead of
  // already (planner/queues.h).
  double v = planner::OnlineOptions{}.v;
  double queue = 0;
  std::vector<PriceChange> prices{};
};

class Replanner {
 public:
  // Errors: InvalidArgument when the plan is none of the problem.
  static absl::StatusOr<std::unique_ptr<Replanner>> create(ReplannerOptions options);

  bool plans_anew() const { return plans_anew_; }
  // The plan in use, as it is at the start of the run.
  PlanAdopted first(Time at) const;

  // A stage has done its part of an iteration of so many samples.
  void worked(const planner::PlannedReplica& replica, std::size_t stage, std::int64_t samples, Duration took);
  void finished(ReplicaId replica, Duration compute);
  // Replicas that have finished something in this batch.
  std::size_t finished() const { return finished_.size(); }
  // The replica is no more.
  void dissolved(ReplicaId replica) { finished_.erase(replica); }
  void joined(std::size_t device);
  void left(std::size_t device);

  struct Change {
    PlanAdopted adopted;
    std::string line;  // for a person
  };
  struct Ended {
    std::optional<BatchDone> batch;  // none where nobody saw it begin
    std::optional<Change> change;    // of replicas and cuts; samples follow speeds without this
  };
  // Errors: ResourceExhausted when the devices that are left cannot hold the model.
  absl::StatusOr<Ended> end_batch(Time at);
  // Nobody is left to end it.
  absl::StatusOr<Ended> give_up_batch(Time at);

 private:
  Replanner(planner::OnlinePlanner planner, const ReplannerOptions& options)
      : planner_(std::move(planner)),
        plans_anew_(options.plans_anew),
        prices_(options.prices),
        micro_batch_(options.plan.micro_batch) {}
  BatchDone measured(Time at) const;
  absl::StatusOr<std::optional<Change>> decide(Time at);
  std::vector<planner::PriceObservation> prices_at(Time at) const;
  std::optional<Spending> spent(double batch_ms);

  planner::OnlinePlanner planner_;
  const bool plans_anew_;
  const std::vector<PriceChange> prices_;
  const std::int64_t micro_batch_;  // the whole run's, so that no plan changes what a batch's gradient is
  planner::BatchObservation batch_;
  std::vector<DeviceWork> work_;
  std::set<ReplicaId> finished_;
  std::int64_t samples_ = 0;  // of all replicas
  Duration slowest_{0};
  std::optional<Time> began_;  // with the end of the one before
  bool changed_ = false;       // the plan, with the end of the one before
};

}  // namespace paceline::control
