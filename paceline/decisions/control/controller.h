// The one brain of a job: policy, membership, sample ledger and the numbered commit log. The same object runs
// in a simulation, in virtual time and live; it has no clock, no I/O and no thread.
//
// Invariants: commits are numbered without gaps; a contribution (replica, clock) is committed at most once;
// each position of each epoch is committed at most once, and all positions are committed when the Finish
// order says so. A fact costs O(log P) for each of its orders; memory grows with the largest replica number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/data_order.h"
#include "paceline/decisions/control/committed_rounds.h"
#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/control/data_shares.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/lateness.h"
#include "paceline/decisions/control/lr_schedule.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/replanner.h"
#include "paceline/decisions/control/sample_ledger.h"
#include "paceline/decisions/policy/clock_board.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::control {

// How a commit of part of the bulk is scaled: by its samples [ours], or not at all [paper]. A whole round is no
// part, even if the data had fewer samples left for it than a bulk: its update is plain PyTorch's.
enum class CommitScale { kSamples, kUpdate };

// More than a replica can load ahead, and few enough to list all of them in each release.
constexpr std::int64_t kMostAhead = 1000;

struct ControllerConfig {
  std::int64_t dataset_size = 0;   // samples an epoch
  std::int64_t total_samples = 0;  // over all epochs; kUnknownTotal: a replica comes to their end and says so
  std::int64_t start_replicas = 1;  // no replica starts before this many have joined
  LrSchedule schedule;
  CommitScale scale = CommitScale::kSamples;
  double staleness_damping = 0;       // λ of 1 / (1 + λτ)
  bool look_ahead = false;            // releases say how far
  std::int64_t ahead = 0;             // iterations whose samples are reserved for each replica
  bool uneven_data = false;           // leases as DataShares says, not of each replica's batch
  std::int64_t least_batch = 1;       // samples of a lease (SampleLedger), and of each local step
  bool evaluate = true;               // some versions are kept for an evaluator
  std::int64_t evaluate_every = 0;    // samples; 0: at the end only
  std::int64_t checkpoint_every = 0;  // samples; 0: at the end only
  DataOrder data_order{};             // recorded, for a later resume
  bool keep_states = false;           // keep the state of every commit, for take_states()
};

class Controller {
 public:
  // `replanner`: of a run whose replicas follow a plan; null in all others.
  Controller(ControllerConfig config, std::unique_ptr<policy::SyncPolicy> policy,
             std::unique_ptr<Replanner> replanner = nullptr);

  // Before the first fact. Errors: InvalidArgument when `state` cannot come from such a job.
  absl::Status restore(const ControllerState& state);
  // The state as of the newest commit: leases in flight count as given back.
  ControllerState save() const;
  // The same for each commit since the last call, in their order. None unless the configuration asks for
  // them.
  std::vector<ControllerState> take_states() { return std::exchange(states_, {}); }

  // Takes one fact and appends the orders it gives. Facts come in non-decreasing time. An error means that
  // the sender is wrong (an unknown replica, a clock out of turn); the Controller then ignores the fact.
  absl::Status handle(const Fact& fact, std::vector<Order>& orders);

  Version version() const { return policy_orders_.latest(); }
  std::int64_t committed_samples() const { return ledger_.committed(); }
  bool started() const { return started_; }
  bool finished() const { return finished_; }
  policy::Bounds bounds() const { return policy_->bounds(); }
  // In use; nothing where there is none.
  std::optional<planner::Plan> plan() const;
  // The next commit, if it is certain before its last gradients are ready (SyncPolicy::commits_all): nothing but these
  // gradients is awaited, and any fact but their ReplicaReady may change it. Such a fact without a weight and an end of
  // the data, on the version that the replica was released on, makes exactly this commit, with what a checkpoint and an
  // evaluation need beside it. Nothing if it is not certain. O(P).
  std::optional<CommitRecord> next_commit() const;
  // Whether the samples of the replica's iteration can be part of a lease of at least `least` samples, if it leaves, and
  // it computes on fewer now. If the iteration consists of local steps, its smallest step counts.
  bool could_be_larger(ReplicaId replica, std::int64_t least) const;
  // Whether the plan may become another one: DeviceJoined, DeviceLeft, DeviceOutOfMemory and LinkMeasured are to be told.
  bool plans_anew() const { return replanner_ != nullptr && replanner_->plans_anew(); }
  // Whether an ordered search for a plan has not been answered yet.
  bool searching() const { return replanner_ != nullptr && replanner_->searching(); }
  // Whether CommitComplete is to be told, and how its commits are summed.
  bool hears_of_completion() const { return policy_->hears_of_completion(); }
  policy::Reduction reduction() const { return policy_->reduction(); }

 private:
  struct Member {
    std::string name;
    std::int64_t batch = 0;          // 0: it is not here
    Clock clock;                     // iterations finished
    Version base;                    // at first the version released, then that of the finished gradient
    bool computing = false;          // released and not ready yet
    bool finished = false;           // ready and not committed yet
    std::optional<double> weight{};  // weight of the finished gradient, as the fact gave it
    std::int64_t steps = 1;          // local steps that its lease is cut into
    bool here() const { return batch > 0; }
  };

  absl::Status take(const Fact& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const ReplicaJoined& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const ReplicaLeft& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const ReplicaReady& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const TimerRang& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const StopAsked& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const CommitComplete& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const DeviceJoined& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const DeviceLeft& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const DeviceOutOfMemory& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const LinkMeasured& fact, std::vector<Order>& orders);
  absl::Status on(Time at, const PlanSearched& fact, std::vector<Order>& orders);

  bool here(ReplicaId replica) const;
  Member& member(ReplicaId replica) { return members_[static_cast<std::size_t>(replica.value())]; }
  const Member& member(ReplicaId replica) const {
    return members_[static_cast<std::size_t>(replica.value())];
  }
  Lateness& lateness(ReplicaId replica) { return lateness_of_[static_cast<std::size_t>(replica.value())]; }
  // The policy knows it: it is neither parked nor waiting for the start.
  bool active(ReplicaId replica) const { return active_.live(replica); }
  void start_if_all_here(Time at);
  // Errors: FailedPrecondition, if others were trained on samples behind that end.
  absl::Status end_data(const ReplicaReady& fact);
  // There are no samples for it now.
  void park(Time at, ReplicaId replica, std::vector<Order>& orders);
  // A replica is gone, and one of its devices cannot compute in this batch.
  void end_batch_without_it(Time at, std::vector<Order>& orders);
  // For a planned run: the iteration is part of a batch, and may end the batch.
  void count_in_batch(Time at, const ReplicaReady& fact, std::int64_t samples, std::vector<Order>& orders);
  // If a planner decides how many samples each replica gets, the replicas get them from their next release
  // on.
  void share_as_planned();
  void activate(Time at, ReplicaId replica, Clock clock);
  void deactivate(Time at, ReplicaId replica);
  bool unpark_one(Time at);
  // The clock of a joining replica: that of the slowest active replica; when all are parked, that of the
  // fastest, so that replicas unparked after it are not ahead. O(1), but O(P) when all are parked, which
  // happens only after the last active one has left.
  Clock entry_clock() const;
  // The lowest clock of a restored replica. All start at once, so no replica may be as far behind as the
  // policy's bound, because the fastest is about to get one further ahead.
  Clock lowest_restored() const;
  // Carries out the policy's orders and their consequences, until there are no more.
  void settle(Time at, std::vector<Order>& orders);
  void carry_out(Time at, const policy::Order& order, std::vector<Order>& orders);
  void commit(const policy::Commit& commit, std::vector<Order>& orders);
  void release(Time at, const policy::Release& release, std::vector<Order>& orders);
  void discard(const policy::Discard& discard, std::vector<Order>& orders);
  // Reserves samples for the next iterations of all replicas that were just released.
  void reserve(std::vector<Order>& orders);
  // The commit of these contributions, as far as shards need it.
  void describe(const policy::Commit& commit, CommitRecord& record) const;
  CommitMember describe(const policy::Contribution& contribution) const;
  void take_contribution(const policy::Contribution& contribution);
  void weigh(CommitRecord& record) const;
  // How much each member counts, by the weights that the program gave.
  void share_out(CommitRecord& record) const;
  // How late its members are.
  void learn(const CommitRecord& record);
  // The oldest version that a gradient to be committed may have been computed on. O(P).
  Version oldest_base() const;
  void look_ahead(Release& release);

  const ControllerConfig config_;
  std::unique_ptr<policy::SyncPolicy> policy_;
  const std::int64_t local_steps_;
  policy::Orders policy_orders_;
  std::vector<policy::Order> carried_out_;  // at the moment; its memory is used again
  SampleLedger ledger_;
  DataShares shares_;                     // used for uneven data
  std::unique_ptr<Replanner> replanner_;  // null unless replicas follow a plan
  bool plan_told_ = false;                // the first one
  std::vector<Member> members_;           // index: replica id
  std::int64_t here_ = 0;                 // number of members with here()
  policy::ClockBoard active_;
  std::set<ReplicaId> parked_;
  std::map<std::string, Clock> restored_clocks_;
  std::int64_t nominal_batch_ = 0;  // B
  Version completed_{0};            // the newest version that servers say is complete
  // For replicas that look ahead:
  Lateness lateness_;                  // over the commits of all replicas
  std::vector<Lateness> lateness_of_;  // over each replica's commits; index: replica id
  CommittedRounds rounds_{Version(0)};
  struct Released {
    std::size_t order = 0;     // its place among the orders
    std::int64_t samples = 0;  // samples of one iteration
  };
  std::vector<Released> released_;  // releases of this fact, if samples are reserved
  std::vector<ControllerState> states_;
  std::int64_t lost_before_start_ = 0;
  bool started_ = false;
  bool finished_ = false;
};

}  // namespace paceline::control
