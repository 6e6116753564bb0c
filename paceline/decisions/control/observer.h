// Watches a run from outside and does not know the policies: it sees the facts and the orders, keeps its own
// books, and says when a promise is broken. It runs in every world, and every report is a bug in Paceline. A
// fact or an order costs O(log P) for each replica in it, and memory grows with the largest replica number.
//
// A reservation is not a lease and may end without notice: another replica's lease of any part of it ends it.
// But as long as it stands, no other replica has reserved, holds or has committed its samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/btree_map.h>

#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/reservation_ledger.h"
#include "paceline/decisions/control/superstep_ledger.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::control {

class Observer {
 public:
  // `start`: what the run was restored from, if it was.
  Observer(policy::Bounds bounds, std::int64_t dataset_size, std::int64_t total_samples,
           const std::optional<ControllerState>& start = std::nullopt);

  // To be shown every fact the Controller took, then the orders it gave, in order. Returns the first broken
  // promise, in words; nullopt if all is well. A mistake in the reservations is reported with the next fact.
  std::optional<std::string> see(const Fact& fact);
  std::optional<std::string> see(const Order& order);

  std::int64_t largest_gap() const { return largest_gap_; }
  std::int64_t largest_staleness() const { return largest_staleness_; }

 private:
  enum class Doing { kGone, kWaiting, kComputing, kFinished, kParked };
  struct Seen {
    Doing doing = Doing::kGone;
    bool counted = false;          // its clock is in counted_clocks_
    bool left_a_gradient = false;  // finished when it left, and not discarded since
    Clock clock{};
    Version base{};
    Lease lease{};
  };

  std::optional<std::string> take_in(const Fact& fact);
  void see_joined(ReplicaId replica);
  std::optional<std::string> see_ready(const ReplicaReady& fact);
  std::optional<std::string> see_finished_in_superstep(ReplicaId replica);
  std::optional<std::string> see_commit(const CommitRecord& commit);
  std::optional<std::string> see_member(const CommitRecord& commit, const CommitMember& member);
  std::optional<std::string> see_release(const Release& release);
  std::optional<std::string> see_discard(const Discard& discard);
  std::optional<std::string> see_finish();
  std::optional<std::string> see_ahead(const Release& release);
  std::optional<std::string> end_at(std::int64_t total);
  bool any_done(const Lease& lease) const;
  std::optional<std::string> mark_done(const Lease& lease);
  // False if any of the positions [begin, end) was done before.
  bool mark_done(std::int64_t begin, std::int64_t end);
  // Null when it is not here.
  Seen* find(ReplicaId replica);
  // Marks a replica as parked or gone.
  void leave(ReplicaId replica, Doing to);
  void count(Seen& seen, Clock clock);
  void uncount(Seen& seen);

  const policy::Bounds bounds_;
  const std::int64_t dataset_size_;
  std::int64_t total_samples_;
  Version version_;
  bool stopped_ = false;
  std::vector<Seen> replicas_;  // index: replica id
  // clocks of replicas that are live and not parked: how many have each
  std::map<Clock, std::int64_t> counted_clocks_;
  std::optional<SuperstepLedger> supersteps_;  // set if a quota is promised
  // Begin → end of committed positions. About as many as replicas, and changed with each commit: nodes of
  // many entries keep that fast.
  absl::btree_map<std::int64_t, std::int64_t> done_;
  std::optional<ReservationLedger> reservations_;  // from the first on
  std::int64_t largest_gap_ = 0;
  std::int64_t largest_staleness_ = 0;
};

}  // namespace paceline::control
