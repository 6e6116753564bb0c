// Cooperate grouping parallel (Li, Tian, Xu, Zhao, Xu, FGCS 168, 2025): replicas form groups as they become
// ready; a group's gradients are summed among its members and become one update, and groups do not wait for
// each other. Of the paper only the abstract is public. Known from it: dynamic groups, synchronous inside and
// asynchronous between. How groups are formed is ours:
//
//  natural   While the global path (the servers and their links) is busy, waiting costs nothing: ready
//            replicas gather, and go as one group when the path is about to be free, as a database's group
//            commit does. On an idle path that is at once, and CGP is ASP; the dearer updates are, the
//            larger the groups become by themselves. On a path that is free the group still stays open for
//            the next replica if that one is close: two gradients that are committed apart make each other
//            stale, and it takes little time to spare them that. With c the share of its worth that a
//            gradient loses by being one round of everybody's late, k members of one group spare themselves
//            and the next one 2ck/N gradients of N a round, and lose Σ δ/T_i for waiting δ in iterations of
//            T_i. So they wait while δ is at most patience/N of their (harmonic) mean iteration; patience =
//            2c.
//  window    stays open for the next replica while that saves more than the waiting costs (grouping.h).
//  dp        closes where the best division of all expected arrivals has its first cut (grouping.h).
//
// Common to them: a group of k_max, or of everyone live, closes at once. A group of fewer than k_min waits
// for more, but no longer than until the last of the replicas it waits for is overdue (predicted ready time +
// 2σ), nor than wait_max after its first member: a straggler holds nobody up. A timer is set when a member
// comes or anybody leaves; if it rings, the group closes as it is.
//
// Guard. No commit has a version staleness τ > S. Whoever computes, or waits, on version u must get into
// commit u + 1 + S at the latest; closing waits for it, whatever the timers say, follows at once when it
// is there or has left, and takes it in, whatever k_max says: more than k_max go by the version they are on,
// the stalest first, and as many as could not get into the next commit. S = 0 is bulk synchronous.
//
// Limits: k_max = 1 gives the orders of ASP; k_min above the number of replicas with no timer those of BSP.
//
// A fact costs O(k log P) for the k members it commits; under `dp` O(P·k_max).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/policy/arrivals.h"
#include "paceline/policy/global_path.h"
#include "paceline/policy/grouping.h"
#include "paceline/policy/sync_policy.h"

namespace paceline::policy {

enum class Grouping { kNatural, kWindow, kDp };
std::string to_string(Grouping grouping);

struct CgpOptions {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::int64_t k_min = 1;
  std::int64_t k_max = kNoLimit;
  std::int64_t staleness = kNoLimit;  // S
  // Of a group since its first member; nothing: as the predictions say; kForever: no timer at all.
  static constexpr Duration kForever = Duration::max();
  std::optional<Duration> wait_max{};
  Grouping grouping = Grouping::kNatural;
  double patience = 1.5;  // of `natural`; ≥ 0
  friend bool operator==(const CgpOptions&, const CgpOptions&) = default;
};

class Cgp final : public SyncPolicy {
 public:
  // Requires: 1 ≤ k_min, 1 ≤ k_max, 0 ≤ S, 0 ≤ patience.
  explicit Cgp(const CgpOptions& options) : options_(options) {}

  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  void timer(Time now, Orders& orders) override;
  void completed(Time now, const Completed& fact, Orders& orders) override;

  Bounds bounds() const override;
  // A group of one has nobody to wait for and nobody to sum with.
  bool hears_of_completion() const override { return options_.k_max > 1; }
  Reduction reduction() const override;

 private:
  struct Waiting {
    Contribution contribution;
    Version base;
    Time since;
  };
  // Why the group closes now; nothing: it stays open, and `wake` says until when.
  std::optional<Reason> closing(Time now, Version latest, Time& wake);
  std::optional<Reason> closing_by_plan(Time now, Time& wake);
  bool bound_blocks(Version latest) const;
  Time deadline(Time now);
  // Until when a natural group stays open for the next one, whatever the path; nothing: it does not.
  std::optional<Time> patient_until(Time now);
  // The latest arrival of the one the rule waits for; nothing: it waits for nobody.
  std::optional<Time> worth_waiting_for(Time now);
  void close_due(Time now, Orders& orders);
  void close(Time now, const Reason& why, Orders& orders);
  // Takes the members of the next commit out of those that wait.
  std::vector<Waiting> take_group(Version latest);
  void release(ReplicaId replica, Time now, Orders& orders, const Reason& why);
  std::int64_t live() const { return static_cast<std::int64_t>(computing_.size() + waiting_.size()); }

  const CgpOptions options_;
  GlobalPath path_;
  Arrivals arrivals_;
  std::set<std::pair<Version, ReplicaId>> computing_;  // by the version they were released on
  std::vector<Version> released_on_;                   // by replica id
  std::vector<Waiting> waiting_;                       // the open group, in order of coming
  std::optional<Time> deadline_;                       // of the open group, set when somebody comes or leaves
  bool blocked_ = false;                               // the bound holds the open group up
  std::optional<Time> wake_;                           // asked for and not come yet
};

}  // namespace paceline::policy
