// The part of RunStats about a planned run: its plans and why they were adopted, the measured against the
// predicted time of batches, and how much of that time each device computed; the rest are bubbles, waiting
// and synchronizing. A batch costs O(devices), memory is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "paceline/base/places.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/planned_run.h"
#include "paceline/records/stats/first_and_latest.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/thinned.h"

namespace paceline::report {

class PlanStats {
 public:
  // A plan or work of more than `devices` devices is ignored.
  explicit PlanStats(std::size_t devices) : devices_(devices) {}

  static constexpr std::size_t kFirstPlans = 100;
  static constexpr std::size_t kLatestPlans = 100;
  static constexpr std::size_t kBatchPoints = 400;
  // "Of late" means about this many batches.
  static constexpr std::int64_t kLateBatches = 20;
  static constexpr std::size_t kLinks = 32;  // further links are ignored
  static constexpr std::size_t kLinkPoints = 200;

  // True if the stages have changed.
  bool adopt(const control::PlanAdopted& adopted);
  // Ignored before the first plan.
  void add(const control::BatchDone& batch);
  void add(Time at, const control::LinkMeasured& fact);

  // Nothing if the run has no plan.
  std::optional<PlanSummary> summary() const;
  PlanHistory history() const;

 private:
  struct Merge {
    BatchPoint operator()(const BatchPoint& older, const BatchPoint& newer) const;
    LinkPoint operator()(const LinkPoint& older, const LinkPoint& newer) const;
  };

  bool knows(const planner::Plan& plan) const;

  const std::size_t devices_;
  std::optional<PlanPeriod> now_;
  FirstAndLatest<PlanPeriod> before_{kFirstPlans, kLatestPlans};
  Thinned<BatchPoint, Merge> batches_{kBatchPoints};
  std::map<std::pair<HostPlace, HostPlace>, Thinned<LinkPoint, Merge>> links_;
  BatchSums all_;
  double late_predicted_ms_ = 0, late_measured_ms_ = 0, error_sum_ = 0;
  std::int64_t re_plans_ = 0;
  std::optional<control::Spending> spending_;
  double queue_max_ = 0;
};

}  // namespace paceline::report
