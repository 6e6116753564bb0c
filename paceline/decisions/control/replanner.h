// The Controller's planner, in a run whose replicas follow a plan: it takes the real times of a batch's
// stages, and which devices came and went, and gives orders. Pure: it has no clock, and it does not search; a
// SearchPlan order asks for that while the run goes on.
//
// A batch is over when every replica has finished an iteration since the last one: under BSP, a commit.
// The time that the planner cannot see, a batch's time minus its slowest replica's, counts as
// synchronization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/work_speeds.h"
#include "paceline/decisions/planner/online_planner.h"

namespace paceline::control {

struct ReplannerOptions {
  planner::Problem problem;
  planner::Plan plan;       // in use
  bool plans_anew = false;  // else the plan stays, and batches are only measured
  double migration_ms = 0;  // beside what devices pull
  std::uint64_t seed = 1;
  // If the problem has a budget: the weight of time against it, and how far the run has already overspent
  // (planner/queues.h).
  double v = planner::OnlineOptions{}.v;
  double queue = 0;
  std::vector<PriceChange> prices{};
};

// The answer to a SearchPlan order. For its host, on any thread; it takes up to a second.
PlanSearched searched(const SearchPlan& order);

class Replanner {
 public:
  // Errors: InvalidArgument when the plan is none of the problem.
  static absl::StatusOr<std::unique_ptr<Replanner>> create(ReplannerOptions options);

  bool plans_anew() const { return plans_anew_; }
  bool searching() const { return searching_; }
  // In use.
  planner::Plan plan() const;
  PlanAdopted first(Time at) const;

  // Errors: InvalidArgument when the plan has no such place.
  absl::Status joined(const ReplicaJoined& fact);
  // True if it was the last replica, and devices came or went in this batch: no replica can end the batch, so
  // it is given up.
  bool left(ReplicaId replica);
  // Errors: InvalidArgument when it does not say what each of its stages worked.
  absl::Status check(const ReplicaReady& fact) const;
  // The replica has finished an iteration of so many samples. Requires: check().
  void finished(const ReplicaReady& fact, std::int64_t samples);
  // Every replica that is here has finished something in this batch.
  bool batch_is_over() const { return !finished_.empty() && finished_.size() >= places_.size(); }
  bool nobody_is_here() const { return places_.empty(); }
  // Whether a device has less memory than its stage of the plan in use needs.
  bool lacks_memory() const { return planner_.lacks_memory(); }
  // How many samples the newest decision gives each replica of the plan in use that is here. None if the plan never
  // changes.
  std::vector<std::pair<ReplicaId, std::int64_t>> data() const;

  // Errors: InvalidArgument when there is no such device, or if its memory cannot be.
  absl::Status joined(const DeviceJoined& fact);
  absl::Status left(const DeviceLeft& fact);
  absl::Status out_of_memory(const DeviceOutOfMemory& fact);
  // Does nothing for hosts without a device. Errors: InvalidArgument when it cannot be.
  absl::Status measured(const LinkMeasured& fact);

  void end_batch(Time at, std::vector<Order>& orders);
  // Ends the batch when no replica is left to finish it.
  void give_up_batch(Time at, std::vector<Order>& orders);
  // Requires: the plan, if there is one, is what planner::run() gave. Errors: FailedPrecondition when no
  // search was ordered.
  absl::Status searched(Time at, const PlanSearched& fact, std::vector<Order>& orders);

 private:
  Replanner(planner::OnlinePlanner planner, const ReplannerOptions& options)
      : planner_(std::move(planner)),
        plans_anew_(options.plans_anew),
        prices_(options.prices),
        micro_batch_(options.plan.micro_batch) {}
  absl::Status check_device(std::int32_t device) const;
  // Null if the replica has no place in the plan in use.
  const planner::PlannedReplica* planned(ReplicaId replica) const;
  // Whether devices have come, gone or run out of memory since the last batch, and the planner does not know that yet.
  bool news_of_devices() const {
    return !batch_.joined.empty() || !batch_.left.empty() || !batch_.out_of_memory.empty();
  }
  BatchDone measured(Time at) const;
  void begin_batch(Time at);
  void look_or_decide(Time at, std::vector<Order>& orders);
  bool look(std::vector<Order>& orders);
  void decide(Time at, std::vector<Order>& orders);
  std::vector<planner::PriceObservation> prices_at(Time at) const;
  std::optional<Spending> spent(double batch_ms);

  planner::OnlinePlanner planner_;
  const bool plans_anew_;
  const std::vector<PriceChange> prices_;
  const std::int64_t micro_batch_;  // the whole run's, so that no plan changes what a batch's gradient is
  struct Place {
    std::size_t index = 0;
    bool outdated = false;  // its replica is of the plan before, and about to leave
  };
  std::map<ReplicaId, Place> places_;  // in the plan, of the replicas that are here
  planner::BatchObservation batch_;
  std::vector<DeviceWork> work_;
  std::set<ReplicaId> finished_;
  WorkSpeeds speeds_;         // long samples are no slow device
  std::int64_t samples_ = 0;  // sum over all replicas
  Duration slowest_{0};
  std::optional<Time> began_;  // when this batch began: at the end of the previous one
  bool changed_ = false;       // the plan changed when this batch began
  bool torn_ = false;          // a replica left for want of memory: it, or others, are to be formed
  bool searching_ = false;     // a search is ordered, and has not been answered
};

}  // namespace paceline::control
