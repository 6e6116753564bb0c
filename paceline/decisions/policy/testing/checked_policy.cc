#include "paceline/decisions/policy/testing/checked_policy.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"

namespace paceline::policy::testing {

CheckedPolicy::CheckedPolicy(const PolicySpec& spec) : policy_(make_policy(spec)) {}

const std::vector<Order>& CheckedPolicy::join(ReplicaId replica, Time now) {
  PACELINE_CHECK(!live(replica), "replica {} is here already", replica);
  const Clock clock = slowest();
  replicas_[replica] = {.clock = clock, .base = version_};
  orders_.clear();
  policy_->joined(now, {replica, clock}, orders_);
  return look_at_orders(now);
}

const std::vector<Order>& CheckedPolicy::leave(ReplicaId replica, Time now) {
  PACELINE_CHECK(live(replica), "replica {} is not here", replica);
  const Replica gone = replicas_.at(replica);
  if (gone.pending) void_.push_back({replica, gone.clock});
  replicas_.erase(replica);
  if (replicas_.empty()) start_superstep();
  look_whether_all_are_measured();
  orders_.clear();
  policy_->left(now, {replica}, orders_);
  look_at_orders(now);
  if (!void_.empty()) complain("the gradient of replica {}, which left, was not discarded", replica);
  void_.clear();
  return orders_.list();
}

const std::vector<Order>& CheckedPolicy::ready(ReplicaId replica, Time now) {
  PACELINE_CHECK(computing(replica), "replica {} does not compute", replica);
  Replica& mine = replicas_.at(replica);
  mine.computing = false;
  mine.pending = true;
  mine.clock = mine.clock.next();
  const std::int64_t ahead = gap(replica);
  largest_gap_ = std::max(largest_gap_, ahead);
  const Bounds bounds = policy_->bounds();
  if (bounds.gap && ahead > *bounds.gap) {
    complain("replica {} is {} ahead, the bound is {}", replica, ahead, *bounds.gap);
  }
  count_in_superstep(replica, mine);
  orders_.clear();
  policy_->ready(now, {replica, mine.clock, mine.base, 1, now - mine.released}, orders_);
  return look_at_orders(now);
}

const std::vector<Order>& CheckedPolicy::complete(Time now) {
  PACELINE_CHECK(under_way(), "no commit after {} is under way", completed_);
  completed_ = completed_.next();
  orders_.clear();
  if (policy_->hears_of_completion()) policy_->completed(now, {completed_}, orders_);
  return look_at_orders(now);
}

const std::vector<Order>& CheckedPolicy::ring(Time now) {
  PACELINE_CHECK(wake_ && *wake_ <= now, "no timer is due");
  wake_.reset();
  orders_.clear();
  policy_->timer(now, orders_);
  return look_at_orders(now);
}

void CheckedPolicy::count_in_superstep(ReplicaId id, Replica& mine) {
  ++mine.readies;
  if (!mine.bound) return look_whether_all_are_measured();
  largest_quota_ = std::max(largest_quota_, ++mine.since_measured);
  const std::optional<std::int64_t> bound = policy_->bounds().quota;
  if (bound && mine.since_measured > *bound) {
    complain("replica {} finished {} iterations since all were ready twice, the bound is {}", id,
             mine.since_measured, *bound);
  }
}

void CheckedPolicy::look_whether_all_are_measured() {
  if (measured_ || replicas_.empty()) return;
  measured_ = std::all_of(replicas_.begin(), replicas_.end(),
                          [](const auto& one) { return one.second.readies >= 2; });
  for (auto& [id, replica] : replicas_) replica.bound = measured_;
}

void CheckedPolicy::start_superstep() {
  measured_ = false;
  for (auto& [id, replica] : replicas_) {
    replica.readies = replica.since_measured = 0;
    replica.bound = false;
  }
}

Clock CheckedPolicy::slowest() const {
  Clock slowest(0);
  for (bool first = true; const auto& [id, replica] : replicas_) {
    if (std::exchange(first, false) || replica.clock < slowest) slowest = replica.clock;
  }
  return slowest;
}

std::int64_t CheckedPolicy::gap(ReplicaId replica) const { return clock(replica) - slowest(); }

std::int64_t CheckedPolicy::pending() const {
  return std::count_if(replicas_.begin(), replicas_.end(),
                       [](const auto& one) { return one.second.pending; });
}

const std::vector<Order>& CheckedPolicy::look_at_orders(Time now) {
  for (const Order& order : orders_.list()) {
    std::visit(Overloaded{
                   [&](const Commit& commit) { see(now, commit); },
                   [&](const Release& release) { see(now, release); },
                   [&](const Discard& discard) { see(discard); },
                   [&](const WakeAt& wake) { wake_ = wake.at; },
               },
               order);
  }
  const bool stuck = !replicas_.empty() && std::none_of(replicas_.begin(), replicas_.end(),
                                                        [](const auto& one) { return one.second.computing; });
  if (stuck) complain("nobody computes");
  return orders_.list();
}

void CheckedPolicy::see(Time, const Commit& commit) {
  if (commit.version != version_.next()) complain("commit {} follows {}", commit.version, version_);
  version_ = commit.version;
  if (!std::is_sorted(commit.members.begin(), commit.members.end()))
    complain("commit {} is not sorted", version_);
  for (const Contribution& member : commit.members) {
    const auto found = replicas_.find(member.replica);
    if (found == replicas_.end() || !found->second.pending || found->second.clock != member.clock) {
      complain("commit {} takes {}@{}, which does not wait for it", version_, member.replica, member.clock);
      continue;
    }
    found->second.pending = false;
    ++committed_;
    const std::int64_t staleness = version_ - found->second.base - 1;
    const auto bound = policy_->bounds().version_staleness;
    if (bound && staleness > *bound)
      complain("commit {} is {} stale, the bound is {}", version_, staleness, *bound);
  }
  if (commit.members.size() == replicas_.size()) {
    ++barriers_;
    start_superstep();
  }
}

void CheckedPolicy::see(Time now, const Release& release) {
  const auto found = replicas_.find(release.replica);
  if (found == replicas_.end()) return complain("replica {} is released and not here", release.replica);
  if (found->second.computing) complain("replica {} is released while it computes", release.replica);
  if (found->second.pending)
    complain("replica {} is released before its gradient is committed", release.replica);
  if (release.version != version_) complain("release on {}, the latest is {}", release.version, version_);
  found->second.computing = true;
  found->second.base = release.version;
  found->second.released = now;
}

void CheckedPolicy::see(const Discard& discard) {
  const auto [replica, clock] = discard.contribution;
  if (std::erase(void_, discard.contribution) > 0) return;
  const auto found = replicas_.find(replica);
  if (found == replicas_.end() || !found->second.pending || found->second.clock != clock)
    return complain("{}@{} is discarded and does not wait to be committed", replica, clock);
  found->second.pending = false;
  ++discarded_;
}

namespace {
std::string members_of(const Commit& commit) {
  std::string text;
  for (const Contribution& member : commit.members)
    text += fmt::format(" {}@{}", member.replica, member.clock);
  return text;
}
}  // namespace

std::string to_string(const Order& order) {
  return std::visit(Overloaded{
                        [](const Commit& commit) {
                          return fmt::format("commit {} of{}: {}", commit.version, members_of(commit),
                                             to_string(commit.why));
                        },
                        [](const Release& release) {
                          return fmt::format("release {} on {}: {}", release.replica, release.version,
                                             to_string(release.why));
                        },
                        [](const Discard& discard) {
                          return fmt::format("discard {}@{}: {}", discard.contribution.replica,
                                             discard.contribution.clock, to_string(discard.why));
                        },
                        [](const WakeAt& wake) { return fmt::format("wake at {} s", to_seconds(wake.at)); },
                    },
                    order);
}

}  // namespace paceline::policy::testing
