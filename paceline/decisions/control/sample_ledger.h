// Knows which samples are still to be trained on, which replica holds which, and which are done. There is one
// queue of positions over all epochs. A replica leases a few at a time, and the lease of a departed replica
// is issued again before any new samples. So each sample is committed exactly once an epoch, whatever joins,
// leaves or crashes.
//
// The samples that a replica is about to lease can be reserved for it, so that it can prepare them. A
// reservation is not a lease: it can be withdrawn without notice, and another replica can take it when no
// other samples are left. Withdrawn samples count as never leased, if no samples above them were leased.
//
// The number of samples may be unknown until a replica comes to their end. Until then `total` is a bound that no run
// reaches (kUnknownTotal). Leases behind the end are then empty.
//
// A model may turn out to be unable to compute on as few samples as a lease has. raise_least() then keeps later leases
// larger. Samples that were given back and are too few for a lease become the scrap of another one, if there are free
// samples behind them in their epoch.
//
// A position is a place in an epoch's permutation, not a sample's index: the ledger needs no data and no
// random numbers. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"
#include "paceline/decisions/control/reservations.h"

namespace paceline::control {

class SampleLedger {
 public:
  // `dataset_size` samples an epoch, `total` samples in all (the last epoch may be cut short). Both positive.
  // `least`: no lease has fewer samples, unless there are fewer in an epoch. A lease then is a little smaller or
  // larger than was asked, so that what is left beside it is enough.
  SampleLedger(std::int64_t dataset_size, std::int64_t total, std::int64_t least = 1);

  // The state for a restart: everything below `next` is done, except `open`.
  struct Saved {
    std::int64_t next = 0;  // no position from here on was leased
    std::vector<std::pair<std::int64_t, std::int64_t>>
        open;                             // [begin, end): leased, given back or reserved, not committed
    std::optional<std::int64_t> end{};    // the number of samples, if end_at() told it
    std::optional<std::int64_t> least{};  // samples of a lease, if raise_least() raised it

    std::int64_t committed() const;
    friend bool operator==(const Saved&, const Saved&) = default;
  };
  Saved save() const;
  // Requires: a fresh ledger. False, and unchanged, when `saved` cannot come from a ledger of this size.
  bool restore(const Saved& saved);

  // Up to `count` samples, never across the end of an epoch: the oldest that are reserved for it (which may
  // be up to a third more than `count`, see fits()), or the first free ones, or the newest that are reserved
  // for the replica with the most reservations. nullopt if there are none left to lease. Requires: the
  // replica holds no lease, and its number is small, because memory grows with the largest.
  std::optional<Lease> lease(ReplicaId replica, std::int64_t count);
  // Reserves up to `count` further samples for a later lease. False if all are leased or reserved.
  bool reserve(ReplicaId replica, std::int64_t count);
  std::int64_t reservations(ReplicaId replica) const {
    return static_cast<std::int64_t>(reserved_.of(replica).size());
  }
  std::vector<Lease> reserved_for(ReplicaId replica) const;
  // Nothing is reserved for it any more.
  void withdraw(ReplicaId replica);
  // There are `total` samples, and no more. What was leased or reserved of others is leased or reserved no more. False,
  // and unchanged, if another total was known, or if other samples are committed already.
  bool end_at(std::int64_t total);
  // From now on no lease has fewer than `least` samples, if that can be. Nothing is reserved any more. No effect if
  // leases are as large already.
  void raise_least(std::int64_t least);
  std::int64_t least() const { return least_; }
  // Whether the samples that the replica holds could be part of a lease of `least` samples, if they were given back
  // now. Requires: it holds some.
  bool could_be_larger(ReplicaId replica, std::int64_t least) const;
  // The replica's samples are in a commit. Requires: it holds a lease.
  Lease commit(ReplicaId replica);
  // Its samples go to others. No effect if it holds none.
  void give_back(ReplicaId replica);
  // Whether the replica has a lease with at least one sample.
  bool holds(ReplicaId replica) const;
  // Whether the replica holds samples from position `total` on.
  bool holds_from(std::int64_t total, ReplicaId replica) const;
  // Requires: it holds one.
  const Lease& held_by(ReplicaId replica) const;

  std::int64_t committed() const { return committed_; }
  std::int64_t total() const { return total_; }
  bool all_committed() const { return committed_ == total_; }
  bool any_to_lease() const { return any_free() || !reserved_.empty(); }
  // Samples that are neither leased nor committed.
  std::int64_t left_to_lease() const { return total_ - committed_ - leased_; }

 private:
  using Ranges = std::map<std::int64_t, std::int64_t>;  // begin → end
  static void insert(Ranges& ranges, std::int64_t begin, std::int64_t end);
  void insert(Ranges& ranges, const Lease& lease) const;
  std::int64_t position(const Lease& lease) const;
  bool any_committed_from(std::int64_t position) const;
  void end_reservations_at(std::int64_t total);
  bool any_free() const { return !returned_.empty() || next_ < total_; }
  std::optional<Lease> from_reserved(ReplicaId replica, std::int64_t count);
  struct Run {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
  };
  // Takes up to `count` samples, within one epoch, from the beginning of the free run that begins at `begin`. What is
  // left of the run in that epoch is nothing, or at least as much as a lease.
  Run cut(std::int64_t begin, std::int64_t count);
  // The first free samples. Requires: there are any.
  Lease first_free(std::int64_t count);
  // The first free run behind `scrap`, in its epoch, that makes a lease of it; else the first there is. nullopt: none.
  std::optional<std::int64_t> run_for(const Run& scrap) const;
  std::int64_t end_of_epoch(std::int64_t position) const {
    return (position / dataset_size_ + 1) * dataset_size_;
  }
  void set_free(const Lease& reserved);

  const std::int64_t dataset_size_;
  std::int64_t total_;
  bool end_was_told_ = false;
  const std::int64_t least_at_first_;
  std::int64_t least_;
  std::int64_t next_ = 0;
  std::int64_t committed_ = 0;
  std::int64_t leased_ = 0;
  Ranges returned_;
  Reservations reserved_;
  std::vector<Lease> held_;  // index: replica id; an empty lease: none
};

}  // namespace paceline::control
