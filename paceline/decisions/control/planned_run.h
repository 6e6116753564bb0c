// The further orders of the Controller in a planned run: a search for a better plan, the change to it with
// the reason, and the measured and the predicted time of each batch. Plain values; a device is its place in
// the job's list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/plan_search.h"

namespace paceline::control {

// planner::run() searches this while the run goes on. The fact PlanSearched answers.
struct SearchPlan {
  std::shared_ptr<const planner::PlanSearch> look;  // null as a journal has it
  // The search follows from the earlier facts.
  friend bool operator==(const SearchPlan&, const SearchPlan&) { return true; }
};

// The plan from now on: all replicas leave, and those of the plan join. The first plan is ordered too,
// although the replicas follow it already.
struct PlanAdopted {
  Time at;
  planner::Plan plan;
  double predicted_ms = 0;  // time of a batch
  std::string why;          // one line for people
  std::string line{};       // the plan in words, and why; a journal does not have it
  friend bool operator==(const PlanAdopted& a, const PlanAdopted& b) {
    return a.at == b.at && a.plan == b.plan && a.predicted_ms == b.predicted_ms && a.why == b.why;
  }
};

// The devices that are left cannot hold the model.
struct NoPlan {
  std::string why;
  friend bool operator==(const NoPlan&, const NoPlan&) = default;
};

// A device's work on a batch.
struct DeviceWork {
  std::int32_t device = 0;
  std::int64_t samples = 0;
  Duration computed{0};
  friend bool operator==(const DeviceWork&, const DeviceWork&) = default;
};

// The price of a device from at_s to until_s of the job's time.
struct PriceChange {
  std::int32_t device = 0;
  double at_s = 0;
  double until_s = 0;
  double per_hour = 0;
};

// The cost of a batch, and its budget.
struct Spending {
  double cost = 0;
  double allowed = 0;  // > 0
  double queue = 0;    // accumulated overspend since, in batches' worth of budget
  friend bool operator==(const Spending&, const Spending&) = default;
};

// Every replica of the plan has finished an iteration since the one before: under BSP, a commit.
struct BatchDone {
  Time at;                  // its end
  double predicted_ms = 0;  // prediction at its start
  double measured_ms = 0;
  bool regular = true;  // a whole batch, and without a change of plans in its time
  std::vector<DeviceWork> work;
  std::optional<Spending> spending{};  // nothing unless there is a budget
  friend bool operator==(const BatchDone&, const BatchDone&) = default;
};

}  // namespace paceline::control
