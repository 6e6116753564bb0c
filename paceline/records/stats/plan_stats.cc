#include "paceline/records/stats/plan_stats.h"

#include <algorithm>
#include <cmath>

namespace paceline::report {

namespace {

void add_to(BatchSums& sums, const BatchSums& more) {
  sums.count += more.count;
  sums.predicted_ms += more.predicted_ms;
  sums.measured_ms += more.measured_ms;
}

BatchSums sums_of(const control::BatchDone& batch) {
  if (!batch.regular || !(batch.measured_ms > 0)) return {};
  return {1, batch.predicted_ms, batch.measured_ms};
}

void add_to(std::vector<double>& sums, std::size_t place, double more) {
  sums.resize(std::max(sums.size(), place + 1), 0);
  sums[place] += more;
}

// Adds a later batch to `sums`.
void add_to(std::optional<control::Spending>& sums, const std::optional<control::Spending>& more) {
  if (!more) return;
  if (!sums) sums.emplace();
  sums->cost += more->cost;
  sums->allowed += more->allowed;
  sums->queue = more->queue;
}

}  // namespace

bool PlanStats::knows(const planner::Plan& plan) const {
  for (const planner::PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t n : replica.devices) {
      if (n < 0 || static_cast<std::size_t>(n) >= devices_) return false;
    }
  }
  return true;
}

bool PlanStats::adopt(const control::PlanAdopted& adopted) {
  if (!knows(adopted.plan)) return false;
  const bool others = now_ && !planner::same_stages(now_->plan, adopted.plan);
  re_plans_ += others ? 1 : 0;
  if (now_) before_.add(*now_);
  now_ = PlanPeriod{adopted.at, adopted.plan, adopted.predicted_ms, adopted.why, {}};
  return others;
}

void PlanStats::add(const control::BatchDone& batch) {
  if (!now_) return;
  BatchPoint point{.at = batch.at,
                   .regular = sums_of(batch),
                   .elapsed_ms = batch.measured_ms,
                   .computed_ms = {},
                   .spending = batch.spending};
  add_to(spending_, batch.spending);
  if (spending_) queue_max_ = std::max(queue_max_, spending_->queue);
  for (const control::DeviceWork& work : batch.work) {
    if (static_cast<std::size_t>(work.device) >= devices_) continue;
    add_to(point.computed_ms, static_cast<std::size_t>(work.device), to_seconds(work.computed) * 1e3);
  }
  batches_.add(point);
  const BatchSums& one = point.regular;
  if (one.count == 0) return;
  add_to(now_->batches, one);
  add_to(all_, one);
  error_sum_ += std::abs(one.predicted_ms - one.measured_ms) / one.measured_ms;
  const auto over = static_cast<double>(std::min(all_.count, kLateBatches));
  late_predicted_ms_ += (one.predicted_ms - late_predicted_ms_) / over;
  late_measured_ms_ += (one.measured_ms - late_measured_ms_) / over;
}

// Ignores the servers' measurements (`shared`): several servers send at once, so the link may carry more.
void PlanStats::add(Time at, const control::LinkMeasured& fact) {
  const std::pair link(fact.from, fact.to);
  if (fact.shared || (links_.size() >= kLinks && !links_.contains(link))) return;
  const auto [points, first] = links_.try_emplace(link, kLinkPoints);
  points->second.add({at, static_cast<double>(fact.bytes), to_seconds(fact.took)});
}

LinkPoint PlanStats::Merge::operator()(const LinkPoint& older, const LinkPoint& newer) const {
  return {newer.at, older.bytes + newer.bytes, older.seconds + newer.seconds};
}

BatchPoint PlanStats::Merge::operator()(const BatchPoint& older, const BatchPoint& newer) const {
  BatchPoint both = newer;
  add_to(both.regular, older.regular);
  both.elapsed_ms += older.elapsed_ms;
  both.batches += older.batches;
  both.spending = older.spending;
  add_to(both.spending, newer.spending);
  for (std::size_t n = 0; n < older.computed_ms.size(); ++n)
    add_to(both.computed_ms, n, older.computed_ms[n]);
  return both;
}

std::optional<PlanSummary> PlanStats::summary() const {
  if (!now_) return std::nullopt;
  PlanSummary summary{now_->plan, re_plans_, all_, late_predicted_ms_, late_measured_ms_, {}};
  summary.spending = spending_;
  summary.queue_max = queue_max_;
  if (all_.count > 0) summary.error = error_sum_ / static_cast<double>(all_.count);
  return summary;
}

PlanHistory PlanStats::history() const {
  PlanHistory history{before_.kept(), before_.left_out(), batches_.points(), {}};
  if (now_) history.plans.push_back(*now_);
  for (const auto& [link, points] : links_)
    history.links.push_back({link.first, link.second, points.points()});
  return history;
}

}  // namespace paceline::report
