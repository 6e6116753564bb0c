// An Observer's books of leases and reservations: no position is both leased and reserved, or one of these
// twice. For observer.h.
//
// Invariant: a replica's reservations are those of its newest release, except what another replica has leased
// since. The releases of one fact describe the state at its end. A release costs O(log P) for each lease that
// its previous release did not list.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/container/btree_map.h>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"
#include "paceline/decisions/control/orders.h"

namespace paceline::control {

class ReservationLedger {
 public:
  ReservationLedger(std::int64_t dataset_size, std::int64_t total_samples)
      : dataset_size_(dataset_size), total_samples_(total_samples) {}

  using Committed = std::function<bool(const Lease&)>;  // whether any of it is

  // The first broken promise, in words: by a lease, or, after all orders of a fact, by the reservations in
  // its releases.
  std::optional<std::string> released(const Release& release);
  std::optional<std::string> settle(const Committed& committed);
  // The replica had this lease when the books were begun. Requires: nothing else is known of it.
  void leased(ReplicaId replica, const Lease& lease) { take(replica, lease, false); }
  // Nothing is reserved any more.
  void end_reservations();
  // Nothing is leased or reserved from here on, because there are no such samples.
  void end_at(std::int64_t total);
  // The replica holds no lease any more.
  void unleased(ReplicaId replica);
  // The replica has no lease and nothing reserved any more.
  void left(ReplicaId replica);

 private:
  struct Taken {
    std::int64_t end = 0;
    ReplicaId replica;
    bool reserved = false;
  };
  struct Replica {
    std::optional<Lease> lease;
    // its newest release's reservations, less those another replica has leased since
    std::vector<Lease> ahead;
  };
  Replica& of(ReplicaId replica);
  std::int64_t start(const Lease& lease) const { return lease.epoch * dataset_size_; }
  // Another one's reservation of any of it is over.
  void end_reservations(const Lease& lease);
  void end_reservations(std::int64_t begin, std::int64_t end);
  std::optional<std::string> take(ReplicaId replica, const Lease& lease, bool reserved);
  // The positions [begin, end), which are a part of `lease`.
  std::optional<std::string> take_run(ReplicaId replica, const Lease& lease, std::int64_t begin,
                                      std::int64_t end, bool reserved);
  void drop(const Lease& lease);

  const std::int64_t dataset_size_;
  std::int64_t total_samples_;
  absl::btree_map<std::int64_t, Taken> taken_;  // key: begin; ranges are disjoint
  std::vector<Replica> replicas_;               // index: replica id
  // reservations of releases that are not settled yet
  std::vector<std::pair<ReplicaId, std::vector<Lease>>> said_;
};

}  // namespace paceline::control
