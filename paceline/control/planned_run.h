// What a planned run tells beside its facts and orders: the plan in use and why, and what each batch took
// against what was predicted of it. Plain values; devices are places in the job's list of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/planner/plan.h"

namespace paceline::control {

// From now on; told of the first plan as well, and again when a run is resumed.
struct PlanAdopted {
  Time at;
  planner::Plan plan;
  double predicted_ms = 0;  // of a batch
  std::string why;          // one line for people
};

// What a device did of a batch.
struct DeviceWork {
  std::int32_t device = 0;
  std::int64_t samples = 0;
  Duration computed{0};
};

// From at_s to until_s of the job's time a device costs so much.
struct PriceChange {
  std::int32_t device = 0;
  double at_s = 0;
  double until_s = 0;
  double per_hour = 0;
};

// What a batch cost against its budget.
struct Spending {
  double cost = 0;
  double allowed = 0;  // > 0
  double queue = 0;    // how far costs have run ahead of the budget since, in batches of it
};

// Every replica of the plan has finished an iteration since the one before: under BSP, a commit.
struct BatchDone {
  Time at;                  // its end
  double predicted_ms = 0;  // as was known at its start
  double measured_ms = 0;
  bool regular = true;  // a whole batch, and without a change of plans in its time
  std::vector<DeviceWork> work;
  std::optional<Spending> spending{};  // where there is a budget
};

}  // namespace paceline::control
