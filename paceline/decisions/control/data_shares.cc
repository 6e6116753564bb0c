#include "paceline/decisions/control/data_shares.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/decisions/planner/data_assignment.h"

namespace paceline::control {

namespace {
// Less than a sample takes in any iteration, and enough to divide by.
constexpr double kLeastMs = 1e-6;
}  // namespace

DataShares::Member& DataShares::member(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= members_.size()) members_.resize(index + 1);
  return members_[index];
}

void DataShares::raise_least(std::int64_t least) {
  if (least <= least_) return;
  least_ = least;
  until_next_ = 0;
}

void DataShares::joined(ReplicaId replica, std::int64_t batch) {
  const bool others_have_begun = std::any_of(
      members_.begin(), members_.end(), [](const Member& one) { return one.batch > 0 && one.has_begun; });
  Member& mine = member(replica);
  mine.batch = batch;
  mine.has_begun = false;
  mine.came_later = others_have_begun;
  ++active_;
  until_next_ = 0;
}

void DataShares::paused(ReplicaId replica) {
  member(replica).batch = 0;
  --active_;
  until_next_ = 0;
}

void DataShares::forget(ReplicaId replica) {
  member(replica) = {};
  speeds_.forget(replica);
}

void DataShares::finished(ReplicaId replica, std::int64_t samples, Duration compute,
                          std::optional<double> weight) {
  const double least = kLeastMs * static_cast<double>(samples);
  speeds_.finished(replica, samples, weight, std::max(least, to_seconds(compute) * 1e3));
}

void DataShares::decided(ReplicaId replica, std::int64_t samples) {
  member(replica).decided = samples;
  until_next_ = 0;
}

bool DataShares::take_decided() {
  for (const Member& one : members_) {
    if (one.batch > 0 && !one.decided) return false;
  }
  for (Member& one : members_) {
    if (one.batch > 0) one.share = std::max(least_, *one.decided);
  }
  until_next_ = active_;
  return true;
}

std::int64_t DataShares::next(ReplicaId replica) {
  if (until_next_ == 0) assign();
  Member& mine = member(replica);
  mine.has_begun = true;
  // Its first iteration is in the middle of a round. The next round is to be on one assignment.
  if (std::exchange(mine.came_later, false))
    until_next_ = 0;
  else
    --until_next_;
  return mine.share;
}

// Who has not finished anything yet is taken to be as fast as the others are on average.
void DataShares::assign() {
  if (take_decided()) return;
  planner::DataProblem problem;
  double known_ms = 0;
  std::int64_t known = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].batch == 0) continue;
    problem.batch += members_[i].batch;
    const auto ms_per_sample = speeds_.ms_per_sample(ReplicaId(static_cast<std::int32_t>(i)));
    problem.replicas.push_back({.beta_ms = ms_per_sample.value_or(0)});
    known_ms += problem.replicas.back().beta_ms;
    known += problem.replicas.back().beta_ms > 0 ? 1 : 0;
  }
  until_next_ = active_;
  const double usual_ms = known > 0 ? known_ms / static_cast<double>(known) : 0;
  for (planner::ReplicaTime& one : problem.replicas) one.beta_ms = one.beta_ms > 0 ? one.beta_ms : usual_ms;
  std::size_t next = 0;
  if (known == 0) {
    for (Member& one : members_) one.share = one.batch;
    return;
  }
  const auto assigned = planner::assign_samples(problem);
  PACELINE_CHECK(assigned.ok(), "samples without caps cannot be shared out: {}",
                 std::string(assigned.status().message()));
  for (Member& one : members_) {
    if (one.batch > 0) one.share = std::max(least_, assigned->samples[next++]);
  }
}

}  // namespace paceline::control
