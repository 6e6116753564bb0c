// Samples that are set aside for iterations to come: each replica has a list of them, the oldest first. For
// sample_ledger.h.
//
// Invariant: the replica with the most reservations is known in O(log P) on average. When a replica takes one
// and gets one, the heap does not change. For each replica it has a number that the replica once had and has
// not exceeded since, and it is corrected only on request.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"

namespace paceline::control {

class Reservations {
 public:
  struct One {
    Lease lease;
    std::int64_t asked = 0;  // samples that it was cut for; the end of an epoch makes it smaller
  };

  // Memory grows with the largest replica number.
  void add(ReplicaId replica, const One& one);
  // Requires: it has one.
  One take_oldest(ReplicaId replica);
  One take_newest(ReplicaId replica);

  const std::vector<One>& of(ReplicaId replica) const;
  bool empty() const { return samples_ == 0; }
  // The replica with the most; of several, the one with the highest number. nullopt if all are empty.
  std::optional<ReplicaId> who_has_most();
  // O(the largest replica number).
  std::vector<ReplicaId> who_has_any() const;
  // All there are, replica by replica.
  template <class Function>
  void for_each(Function function) const {
    for (const Replica& replica : replicas_) {
      for (const One& one : replica.list) function(one.lease);
    }
  }

 private:
  struct Replica {
    std::vector<One> list;
    std::size_t in_heap = 0;  // the number in its entry that counts; 0: none does
  };
  void put(ReplicaId replica, Replica& mine);

  std::vector<Replica> replicas_;  // index: replica id
  std::priority_queue<std::pair<std::size_t, ReplicaId>> heap_;
  std::int64_t samples_ = 0;
};

}  // namespace paceline::control
