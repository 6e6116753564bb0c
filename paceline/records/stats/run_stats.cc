#include "paceline/records/stats/run_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::report {

RunStats::RunStats(RunInfo info, std::optional<std::int64_t> samples_at_start)
    : info_(std::move(info)),
      plans_(info_.devices.size()),
      samples_at_start_(samples_at_start),
      samples_(samples_at_start.value_or(0)) {}

void RunStats::describe(RunInfo info) {
  info_ = std::move(info);
  info_.total_samples = data_end_.value_or(info_.total_samples);
}

void RunStats::on_fact(const control::Fact& fact) {
  std::visit([&](const auto& what) { on(fact.at, what); }, fact.what);
}

void RunStats::on_order(Time at, const control::Order& order) {
  std::visit([&](const auto& what) { on(at, what); }, order);
}

void RunStats::on_evaluated(const control::Evaluated& evaluated) {
  evaluations_.add(evaluated);
  last_evaluation_ = evaluated;
  // Unlike std::max and std::min, these ignore NaN.
  best_accuracy_ = std::fmax(best_accuracy_.value_or(evaluated.accuracy), evaluated.accuracy);
  best_loss_ = std::fmin(best_loss_.value_or(evaluated.loss), evaluated.loss);
  if (!met_target_ && info_.target && meets(*info_.target, evaluated)) met_target_ = evaluated;
}

void RunStats::on(Time at, const control::PlanAdopted& order) {
  if (plans_.adopt(order)) events_.add({at, "", fmt::format("re-planned: {}", order.why)});
}

void RunStats::on(Time at, const control::ReplicaJoined& fact) {
  const auto index = static_cast<std::size_t>(fact.replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  const bool fresh = !replicas_[index];
  if (fresh) add_replica(fact);
  // A replica that left with its process has the same number again in a resumed run.
  PACELINE_CHECK(fresh || replicas_[index]->doing() == Doing::kGone, "replica {} joined twice", fact.replica);
  events_.add({at, fact.name, fmt::format("joined, {} samples an iteration", fact.batch)});
}

void RunStats::add_replica(const control::ReplicaJoined& fact) {
  std::optional<ReplicaStats>& added = replicas_[static_cast<std::size_t>(fact.replica.value())];
  const auto lane = lane_by_name_.find(fact.name);
  if (lane != lane_by_name_.end() && replica(lane->second).doing() == Doing::kGone) {
    added.emplace(fact.replica, fact.name, false);
    added->take_lane_of(replica(lane->second));
    lane->second = fact.replica;
    return;
  }
  added.emplace(fact.replica, fact.name, lanes_ < kRecordedReplicas);
  if (!added->recorded()) return;
  ++lanes_;
  lane_by_name_[fact.name] = fact.replica;
}

void RunStats::on(Time at, const control::ReplicaLeft& fact) {
  replica(fact.replica).left(at, fact.why);
  leave_board(fact.replica);
  events_.add({at, replica(fact.replica).name(), fmt::format("left: {}", fact.why)});
}

void RunStats::on(Time at, const control::ReplicaReady& fact) {
  if (fact.data_end) info_.total_samples = *(data_end_ = fact.data_end);
  ReplicaStats& mine = replica(fact.replica);
  mine.ready(at, fact.compute, fact.pulling, fact.loss, fact.metrics, fact.weight);
  iterations_ += mine.steps();
  clocks_.finish(fact.replica, fact.clock);
  const std::int64_t gap = clocks_.gap(fact.replica);
  gap_max_ = std::max(gap_max_, gap);
  mine.saw_gap(at, gap);
}

void RunStats::on(Time at, const control::StopAsked& fact) {
  events_.add({at, "", fmt::format("a stop was asked for: {}", fact.why)});
}

void RunStats::on(Time at, const control::CommitRecord& order) {
  if (!samples_at_start_) samples_at_start_ = order.committed_before;
  samples_ = order.committed_after();
  ++commits_;
  Group::Members drawn;
  for (const control::CommitMember& member : order.members) {
    const std::int64_t staleness = order.version - member.base - 1;
    staleness_.add(staleness);
    ReplicaStats& from = replica(member.replica);
    from.committed(member.lease.size(), staleness);
    if (from.recorded()) drawn.push_back(member.replica);
    average_loss(at, from, member.lease.size(), kLossWindowBulks * order.nominal);
    average_metrics(from, member.lease.size(), kLossWindowBulks * order.nominal);
  }
  groups_.add(at, order, std::move(drawn), clocks_.size());
  training_.add(
      {at, samples_, loss_.value().value_or(std::numeric_limits<double>::quiet_NaN()), training_metrics()});
}

void RunStats::on(Time at, const control::Release& order) {
  if (!start_) start_ = at;
  ReplicaStats& mine = replica(order.replica);
  if (mine.doing() == Doing::kParked) events_.add({at, mine.name(), "back: there are samples for it again"});
  mine.released(at, order.clock, order.why, order.steps);
  if (info_.asked_pace)
    mine.asked(info_.asked_pace({mine.name(), order.clock, at, order.lease.size(), order.steps}));
  if (!clocks_.live(order.replica)) clocks_.join(order.replica, Clock(order.clock.value() - 1));
  mine.saw_gap(at, clocks_.gap(order.replica));
}

void RunStats::on(Time at, const control::Park& order) {
  ReplicaStats& mine = replica(order.replica);
  if (mine.doing() != Doing::kParked) events_.add({at, mine.name(), "done: no samples are left for it"});
  mine.parked(at);
  leave_board(order.replica);
}

void RunStats::on(Time at, const control::Finish& order) {
  finished_ = true;
  finished_at_ = at;
  finished_why_ = order.why;
  finish_cause_ = order.cause;
  events_.add({at, "", fmt::format("the end: {}", order.why)});
}

ReplicaStats& RunStats::replica(ReplicaId id) {
  const auto index = static_cast<std::size_t>(id.value());
  PACELINE_CHECK(index < replicas_.size() && replicas_[index], "replica {} never joined", id);
  return *replicas_[index];
}

void RunStats::average_loss(Time at, const ReplicaStats& from, std::int64_t samples, std::int64_t window) {
  loss_.add(from.last_loss(), samples, window, from.last_weight());
  const bool is_number = std::isfinite(from.last_loss());
  if (loss_is_number_ && !is_number)
    events_.add({at, from.name(), "its training loss is not a finite number"});
  loss_is_number_ = is_number;
}

void RunStats::average_metrics(const ReplicaStats& from, std::int64_t samples, std::int64_t window) {
  for (const auto& [name, value] : from.last_metrics()) {
    if (metrics_.size() < kAveragedMetrics || metrics_.contains(name))
      metrics_[name].add(value, samples, window, from.last_weight());
  }
}

Metrics RunStats::training_metrics() const {
  Metrics means;
  for (const auto& [name, average] : metrics_) {
    if (const auto mean = average.value()) means[name] = *mean;
  }
  return means;
}

void RunStats::leave_board(ReplicaId id) {
  if (clocks_.live(id)) clocks_.leave(id);
}

Summary RunStats::summary(Time now) const {
  Summary summary;
  summary.run = info_;
  summary.finished = finished_;
  summary.finished_why = finished_why_;
  summary.finish_cause = finish_cause_;
  summary.at = until(now);
  if (start_) summary.elapsed_s = std::max(0.0, to_seconds(summary.at - *start_));
  const auto here = static_cast<double>(samples_ - samples_at_start_.value_or(0));
  if (summary.elapsed_s > 0) summary.samples_per_s = here / summary.elapsed_s;
  summary.samples = samples_;
  summary.measured_updates = updates_.measured();
  summary.iterations = iterations_;
  summary.commits = commits_;
  if (info_.epoch_samples > 0) summary.epochs = here / static_cast<double>(info_.epoch_samples);
  summary.groups = groups_.summary();
  if (!clocks_.empty()) summary.gap = clocks_.fastest() - clocks_.slowest();
  summary.gap_max = gap_max_;
  if (staleness_.total() > 0) summary.staleness_mean = staleness_.mean();
  summary.staleness_max = staleness_.max();
  if (info_.world != World::kSimulated) summary.training_loss = loss_.value();
  summary.training_metrics = training_metrics();
  summary.last_evaluation = last_evaluation_;
  summary.best_accuracy = best_accuracy_;
  summary.best_loss = best_loss_;
  summary.met_target = met_target_;
  summary.plan = plans_.summary();
  add_activity(summary.at, summary);
  return summary;
}

void RunStats::add_activity(Time now, Summary& summary) const {
  SumOfDurations computing{0};
  SumOfDurations waiting{0};
  for (const std::optional<ReplicaStats>& replica : replicas_) {
    if (!replica) continue;
    computing += replica->computing(now);
    waiting += replica->waiting(now);
    ReplicaSummary& added = summary.replicas.emplace_back(replica->summary(now));
    if (finished_ && works(added.doing)) added.doing = Doing::kEnded;
  }
  summary.wait_share = share_waiting(waiting, computing);
}

// Members that gave their lane away are shown by the replica that has it now.
GroupHistory RunStats::groups() const {
  GroupHistory history = groups_.history();
  for (Group& group : history.formed) {
    for (ReplicaId& id : group.drawn) {
      const ReplicaStats& member = *replicas_[static_cast<std::size_t>(id.value())];
      if (!member.recorded()) id = lane_by_name_.at(member.name());
    }
    std::sort(group.drawn.begin(), group.drawn.end());
    group.drawn.erase(std::unique(group.drawn.begin(), group.drawn.end()), group.drawn.end());
  }
  return history;
}

History RunStats::history(Time now, Lanes lanes) const {
  History history{.start = start_.value_or(Time{}),
                  .samples_at_start = samples_at_start_.value_or(0),
                  .evaluations = evaluations_.points(),
                  .training = training_.points(),
                  .staleness = staleness_,
                  .groups = groups(),
                  .replicas = {},
                  .events = events_.kept(),
                  .events_left_out = events_.left_out(),
                  .plans = plans_.history()};
  if (lanes == Lanes::kNone) return history;
  for (const std::optional<ReplicaStats>& replica : replicas_) {
    if (replica && replica->recorded()) history.replicas.push_back(replica->history(until(now)));
  }
  return history;
}

}  // namespace paceline::report
