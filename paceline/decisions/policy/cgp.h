// Cooperate grouping parallel (Li, Tian, Xu, Zhao, Xu, FGCS 168, 2025): replicas form groups as they become
// ready; a group's gradients are summed among its members and become one update, and groups do not wait for
// each other. Only the abstract of the paper is public. It says: dynamic groups, synchronous inside and
// asynchronous between. The rules that form groups are ours:
//
//  natural   While the global path (the servers and their links) is busy, waiting costs nothing: ready
//            replicas gather, and go as one group when the path is about to be free, as a database's group
//            commit does. The same holds for the way back, which is busy with the weights of earlier commits
//            (return_path.h). The more expensive updates are, the larger groups become by themselves. A group
//            that could go still stays open while that is worth it. A purse pays for this. It holds at most
//            one iteration for each of the N replicas:
//              each gradient that is committed puts `patience` in,               purse += patience/N,
//              what its replica waited in a group that could go is taken out,    purse −= ((δ + ε)/T)/N,
//              and k members wait for the m that come within δ while             purse·k·m/N > Σ (δ + ε)/T,
//            for the m with the greatest difference. The purse owes one iteration for each replica at
//            most, because a wait may be as long as the whole run was stopped. T: the iterations of the members; δ: as arrivals.h
//            predicts; a replica that is due and not there is expected another σ·√(2/π) later. ε: how much
//            longer the update takes when the group is larger, as global_path.h has learnt; all its members
//            wait for that too.
//  window    stays open for the next replica while that saves more than the waiting costs (grouping.h).
//  dp        closes where the best division of all expected arrivals has its first cut (grouping.h).
//
// The reason for the purse: the delay d of a gradient is the amount that was committed between the version
// that it was computed on and its own, in bulk rounds: Σ f over those commits. A commit of k makes the N − k
// others later by k/N. So if no replica waits after a release, the mean over all gradients is, whatever the
// order of commits,
//   d = 1 − Σ k² / (N·Σ k).
// For ASP that is 1 − 1/N, for BSP 0. To join m to k adds 2km to Σ k². This saves 2km/N bulk rounds, and
// costs Σ δ/T iterations. If a rule buys everything that is cheaper than some price, and nothing else, it
// gets the least d for its iterations. The purse is twice that price: it rises while little is bought, and
// falls while much is bought. So replicas wait for `patience` of their iterations in the long run, whatever
// N, the jitter and the mix of speeds are: the rate is 1/(1 + patience) of ASP's, or more if less waiting is
// enough.
//
// A wait is also an investment, because replicas that are released together come back together. Equal
// replicas stay in step at any N. A replica that misses its group goes alone at once, and catches up while
// the others wait for each other. Its lateness is a random walk with a drift (Lindley's recursion): if groups
// wait for β·σ (σ: the jitter), the share of the replicas in the large group is about √2·β·exp(−0.58·β), and
// d is 1 minus its square. With `d`, the purse gets no more while the mean delay is at most `d`.
//
// For all rules: a group of k_max, or of all live replicas, closes at once. A group of fewer than k_min waits
// for more members, at most until the last replica that it waits for is overdue (predicted ready time + 2σ),
// and at most for wait_max after its first member. So a straggler holds no group up. A timer is set when a
// member comes or a replica leaves; if it rings, the group closes as it is.
//
// The guard: no commit has a version staleness τ > S. A replica that computes or waits on version u must get
// into commit u + 1 + S at the latest. The group stays open for it, whatever the timers say. It closes at
// once when the replica is there or has left, and takes it in, whatever k_max says. If there are more than
// k_max, the stalest versions go first, and all that could not get into the next commit go too. S = 0 is bulk
// synchronous. There is no S by default. If one replica is four times slower than the others and exceeds S,
// it holds all of them up. That shortens the delay of its own gradients only, and these are few.
//
// Limits: patience = 0 gives the orders of ASP if updates take no time, and k_max = 1 always does. A k_min
// above the number of replicas without a timer gives the orders of BSP, and so does S = 0.
//
// A fact costs O(k log P) for the k members it commits, and now and then looks at up to 256 arrivals; under
// `dp` O(P·k_max).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/arrivals.h"
#include "paceline/decisions/policy/global_path.h"
#include "paceline/decisions/policy/grouping.h"
#include "paceline/decisions/policy/oldest_first.h"
#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/return_path.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

enum class Grouping { kNatural, kWindow, kDp };
std::string to_string(Grouping grouping);

struct CgpOptions {
  static constexpr const char* kName = "cgp";
  static constexpr const char* kForm = "cgp";
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::int64_t k_min = 1;
  std::int64_t k_max = kNoLimit;
  std::int64_t staleness = kNoLimit;  // S
  // The longest wait of a group since its first member. nullopt: the predictions decide; kForever: no timer.
  static constexpr Duration kForever = Duration::max();
  std::optional<Duration> wait_max{};
  Grouping grouping = Grouping::kNatural;
  // For `natural`: the share of its iterations' time that a replica may wait for others; ≥ 0.
  double patience = 0.1;
  double delay = 0;  // For `natural`: the delay that is small enough, d, in bulk rounds; 0 ≤ d ≤ 1.

  static absl::StatusOr<CgpOptions> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  // Refuses a job with fewer than k_min replicas. Without a timer it is allowed, because that is bulk
  // synchronous.
  absl::Status check(const PolicyText& text, std::int64_t replicas) const;
  friend bool operator==(const CgpOptions&, const CgpOptions&) = default;
};
using CgpSpec = CgpOptions;

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
  // A group of one has no other member to wait for or to sum with.
  bool hears_of_completion() const override { return options_.k_max > 1; }
  Reduction reduction() const override;

  const Arrivals& arrivals() const { return arrivals_; }

 private:
  struct Waiting {
    Contribution contribution;
    Version base;
    Time since;
    double seconds;  // time of one of its iterations
  };
  struct Released {
    Version on;
    std::int64_t after = 0;  // gradients committed at that time
    bool by_commit = false;  // the release followed commit `on`, of which the replica was a member
  };
  // A natural group waits until `until` for `members` members in all.
  struct Plan {
    Time until;
    std::size_t members;
  };
  // Why the group closes now; nullopt: it stays open, and `wake` says until when.
  std::optional<Reason> closing(Time now, Version latest, Time& wake);
  std::optional<Reason> closing_by_plan(Time now, Time& wake);
  // Whether updates and weights on their way keep the open group back; `wake`: until when.
  bool ways_busy(Time now, Time& wake) const;
  bool bound_blocks(Version latest) const;
  Time deadline(Time now);
  // The time until which a natural group that could close stays open for others; nullopt: it closes.
  std::optional<Time> patient_until(Time now);
  // Iterations lost if the open group waits for `more` members, including theirs through a longer update.
  double cost_of_waiting(std::size_t more, Duration wait) const;
  // The extra time that the update of a larger group takes; never negative.
  Duration dearer(std::size_t few, std::size_t many) const;
  // Adds to the purse what a group that closes now earns, and takes out what its waiting costs.
  void pay(const std::vector<Waiting>& group, Time now);
  // The latest arrival of the replica that the rule waits for; nullopt: it waits for no replica.
  std::optional<Time> worth_waiting_for(Time now);
  void count_lost();
  void close_due(Time now, Orders& orders);
  void close(Time now, const Reason& why, Orders& orders);
  // Moves the members of the next commit from waiting_ to group_.
  void take_group(Version latest);
  void release(ReplicaId replica, bool by_commit, Time now, Orders& orders, const Reason& why);
  Released& released(ReplicaId replica) { return released_[static_cast<std::size_t>(replica.value())]; }
  std::int64_t live() const { return static_cast<std::int64_t>(computing_.size() + waiting_.size()); }

  const CgpOptions options_;
  GlobalPath path_;
  ReturnPath back_;
  Arrivals arrivals_;
  OldestFirst
      computing_;  // in the order of their releases, and so of the versions on which they were released
  std::vector<Released> released_;  // indexed by replica id
  std::vector<Waiting> waiting_;    // the open group, in order of coming
  std::vector<Waiting> group_;      // the members of the commit that is being ordered
  std::optional<Time> deadline_;    // the open group's; set when a member comes or a replica leaves
  bool blocked_ = false;            // the bound holds the open group up
  std::optional<Time> wake_;        // a timer that was asked for and has not rung
  std::optional<Time> could_go_;    // the time since which only patience keeps the group open
  std::size_t could_go_with_ = 0;   // members at that time
  std::optional<Plan> plan_;        // for the open group
  std::vector<Duration> waits_;     // scratch memory of patient_until
  std::vector<double> least_;       // costs of these without the longer update; the same
  double lost_ = 0;                 // iterations that the open group loses in a second
  double purse_ = 0;                // iterations a replica, −1 to 1
  std::int64_t committed_ = 0;      // gradients
  double delay_ = 1;                // the mean of late, in bulk rounds
};

}  // namespace paceline::policy
