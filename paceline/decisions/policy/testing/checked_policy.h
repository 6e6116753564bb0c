// A policy in a world that plays by the rules and checks that the policy does: it keeps its own books of who
// computes and who waits, makes each fact from them, and says when an order or a bound is wrong. The gap and
// the quota are computed here, from the facts alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy::testing {

class CheckedPolicy {
 public:
  explicit CheckedPolicy(const PolicySpec& spec);

  // Each function gives the policy one fact and returns its orders, valid until the next call. A replica
  // joins at the slowest live replica's clock. Requires: the fact's own requirements.
  const std::vector<Order>& join(ReplicaId replica, Time now);
  const std::vector<Order>& leave(ReplicaId replica, Time now);
  const std::vector<Order>& ready(ReplicaId replica, Time now);
  // Completes the oldest commit under way. Requires: there is one.
  const std::vector<Order>& complete(Time now);
  // Rings the timer that was asked for. Requires: wake().
  const std::vector<Order>& ring(Time now);
  std::optional<Time> wake() const { return wake_; }
  bool under_way() const { return completed_ != version_; }
  Version version() const { return version_; }
  Version completed() const { return completed_; }

  bool live(ReplicaId replica) const { return replicas_.contains(replica); }
  bool computing(ReplicaId replica) const { return live(replica) && replicas_.at(replica).computing; }
  Clock clock(ReplicaId replica) const { return replicas_.at(replica).clock; }
  std::int64_t gap(ReplicaId replica) const;
  // The largest gap of any replica so far.
  std::int64_t largest_gap() const { return largest_gap_; }
  std::int64_t committed() const { return committed_; }
  // Commits of all live replicas, and the most iterations one finished in a superstep once all were measured.
  std::int64_t barriers() const { return barriers_; }
  std::int64_t largest_quota() const { return largest_quota_; }
  // Discarded gradients of live replicas.
  std::int64_t discarded() const { return discarded_; }
  // Gradients that a live replica finished and that are not committed or discarded yet.
  std::int64_t pending() const;

  // The first promise that was broken; empty while all is well.
  const std::string& broken() const { return broken_; }

 private:
  struct Replica {
    Clock clock;
    Version base;
    Time released{};
    bool computing = false;
    bool pending = false;             // finished and not committed or discarded yet
    std::int64_t readies = 0;         // since the last commit of all
    std::int64_t since_measured = 0;  // iterations finished since all had been ready twice
    bool bound = false;               // was live at that moment
  };

  Clock slowest() const;
  void count_in_superstep(ReplicaId id, Replica& mine);
  void look_whether_all_are_measured();
  void start_superstep();
  const std::vector<Order>& look_at_orders(Time now);
  void see(Time now, const Commit& commit);
  void see(Time now, const Release& release);
  void see(const Discard& discard);
  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (broken_.empty()) broken_ = fmt::format(format, std::forward<Args>(args)...);
  }

  std::unique_ptr<SyncPolicy> policy_;
  Orders orders_{Version(0)};
  Version version_;
  Version completed_;
  std::optional<Time> wake_;
  std::map<ReplicaId, Replica> replicas_;
  std::vector<Contribution> void_;  // pending of the replica that leaves
  std::int64_t largest_gap_ = 0;
  std::int64_t committed_ = 0;
  std::int64_t discarded_ = 0;
  bool measured_ = false;  // all have been ready twice in this superstep
  std::int64_t barriers_ = 0;
  std::int64_t largest_quota_ = 0;
  std::string broken_;
};

// "commit 3 of 0@2 1@2: reason" and the like.
std::string to_string(const Order& order);

}  // namespace paceline::policy::testing
