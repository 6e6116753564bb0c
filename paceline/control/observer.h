// Watches a run from outside and knows nothing of policies: it sees the facts and the orders, keeps books of
// its own, and says when a promise is broken. It runs in every world; what it reports is a bug of ours.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "paceline/control/controller_state.h"
#include "paceline/control/facts.h"
#include "paceline/control/orders.h"
#include "paceline/policy/sync_policy.h"

namespace paceline::control {

class Observer {
 public:
  // `start`: what the run was restored from, if it was.
  Observer(policy::Bounds bounds, std::int64_t dataset_size, std::int64_t total_samples,
           const std::optional<ControllerState>& start = std::nullopt);

  // To be shown every fact the Controller took, then the orders it gave, in order. The first broken promise,
  // in words; nothing when all is well.
  std::optional<std::string> see(const Fact& fact);
  std::optional<std::string> see(const Order& order);

  std::int64_t largest_gap() const { return largest_gap_; }
  std::int64_t largest_staleness() const { return largest_staleness_; }

 private:
  enum class Doing { kWaiting, kComputing, kFinished, kParked };
  struct Seen {
    Doing doing = Doing::kWaiting;
    Clock clock;
    bool counted = false;  // its clock is in counted_clocks_
    Version base;
    Lease lease;
  };

  std::optional<std::string> see_ready(const ReplicaReady& fact);
  std::optional<std::string> see_commit(const CommitRecord& commit);
  std::optional<std::string> see_member(const CommitRecord& commit, const CommitMember& member);
  std::optional<std::string> see_release(const Release& release);
  std::optional<std::string> see_finish();
  std::optional<std::string> mark_done(const Lease& lease);
  void forget(ReplicaId replica);
  void count(Seen& seen, Clock clock);
  void uncount(Seen& seen);

  const policy::Bounds bounds_;
  const std::int64_t dataset_size_;
  const std::int64_t total_samples_;
  Version version_;
  bool stopped_ = false;
  std::map<ReplicaId, Seen> replicas_;
  std::multiset<Clock> counted_clocks_;        // of the replicas that are live and not parked
  std::map<std::int64_t, std::int64_t> done_;  // begin → end of committed positions
  std::int64_t largest_gap_ = 0;
  std::int64_t largest_staleness_ = 0;
};

}  // namespace paceline::control
