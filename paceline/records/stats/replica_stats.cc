#include "paceline/records/stats/replica_stats.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace paceline::report {

namespace {

constexpr const char* kNoSamplesLeft = "no samples are left for it";

std::optional<double> mean_over(double sum, std::int64_t count) {
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

bool drawn(Doing doing) {
  return doing == Doing::kComputing || doing == Doing::kWaiting || doing == Doing::kParked;
}

}  // namespace

std::optional<double> share_waiting(SumOfDurations waiting, SumOfDurations computing) {
  const SumOfDurations both = waiting + computing;
  if (both == SumOfDurations::zero()) return std::nullopt;
  return to_seconds(waiting) / to_seconds(both);
}

ReplicaStats::ReplicaStats(ReplicaId replica, std::string name, bool recorded)
    : replica_(replica), name_(std::move(name)) {
  if (recorded) recording_.make();
}

void ReplicaStats::released(Time at, Clock iteration, const policy::Reason& why, std::int64_t steps) {
  change(at, Doing::kComputing, why);
  iteration_ = iteration;
  steps_ = std::max<std::int64_t>(1, steps);
}

void ReplicaStats::ready(Time at, Duration compute, Duration pulling, double loss, const Metrics& metrics,
                         std::optional<double> weight) {
  change(at, Doing::kWaiting, {});
  iterations_ += steps_;
  compute_sum_ += compute;
  look_at_pace(compute - pulling);
  last_loss_ = loss;
  last_weight_ = weight;
  last_metrics_ = metrics;
}

void ReplicaStats::look_at_pace(Duration taken) {
  const std::optional<Duration> asked = std::exchange(asked_, std::nullopt);
  if (!asked) return;
  const auto allowed = std::chrono::duration_cast<Duration>(kLateShare * *asked);
  late_ += taken > *asked + std::max(allowed, kLateLeast) ? 1 : 0;
  asked_sum_ += *asked;
  taken_sum_ += taken;
  ++paced_;
}

std::optional<PaceSummary> ReplicaStats::pace() const {
  if (paced_ < kLeastPaced) return std::nullopt;
  const auto count = static_cast<double>(paced_);
  return PaceSummary{.asked_s = to_seconds(asked_sum_) / count,
                     .taken_s = to_seconds(taken_sum_) / count,
                     .held = late_ * kMostLateOf <= paced_};
}

void ReplicaStats::parked(Time at) { change(at, Doing::kParked, {kNoSamplesLeft}); }

void ReplicaStats::left(Time at, const std::string& why) {
  change(at, Doing::kGone, {"it left"});
  left_why_ = why;
}

void ReplicaStats::committed(std::int64_t samples, std::int64_t staleness) {
  samples_ += samples;
  ++contributions_;
  staleness_sum_ += staleness;
}

void ReplicaStats::saw_gap(Time at, std::int64_t gap) {
  if (recording_) recording_->gaps.add({at, gap});
}

void ReplicaStats::take_lane_of(ReplicaStats& earlier) {
  recording_ = std::move(earlier.recording_);
  recording_->computing += earlier.computing_;
  recording_->waiting += earlier.waiting_;
}

void ReplicaStats::change(Time at, Doing to, const policy::Reason& why) {
  computing_ += open(Doing::kComputing, at);
  waiting_ += open(Doing::kWaiting, at);
  if (recording_ && drawn(doing()) && at > since_) {
    recording_->intervals.add({since_, at, doing(), iteration_, why});
    recording_->activity.add({at, recording_->computing + computing_, recording_->waiting + waiting_});
  }
  doing_ = to;
  since_ = at;
}

Duration ReplicaStats::open(Doing which, Time now) const {
  return which == doing() && now > since_ ? now - since_ : Duration::zero();
}

ReplicaSummary ReplicaStats::summary(Time now) const {
  // A replica that left with its process may be back: then the reason why it left is not shown.
  const std::string why = doing_ == Doing::kParked ? kNoSamplesLeft : doing_ == Doing::kGone ? left_why_ : "";
  return {.replica = replica_,
          .name = name_,
          .doing = doing_,
          .why = why,
          .iterations = iterations_,
          .discarded = discarded_,
          .samples = samples_,
          .mean_compute_s = mean_over(to_seconds(compute_sum_), iterations_),
          .wait_share = share_waiting(waiting(now), computing(now)),
          .mean_staleness = mean_over(static_cast<double>(staleness_sum_), contributions_),
          .pace = pace()};
}

ReplicaHistory ReplicaStats::history(Time now) const {
  ReplicaHistory history{replica_, recording_->intervals.kept(), recording_->intervals.left_out(),
                         recording_->activity.points(), recording_->gaps.points()};
  if (drawn(doing()) && now > since_) {
    history.intervals.push_back({since_, now, doing(), iteration_, {"the record ends here"}});
  }
  return history;
}

}  // namespace paceline::report
