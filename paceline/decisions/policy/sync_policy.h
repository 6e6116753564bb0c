// A synchronization policy: facts in, orders out. Every scheme is two decisions: which finished gradients
// become one numbered update of the global weights (commit), and who may start its next iteration (release).
//
// A policy is a pure state machine: no clock, no I/O, no thread, no randomness. Time is a field of the fact,
// so the same policy runs in a simulation, in virtual time and live, and the same facts always give the same
// orders. One thread; facts come in non-decreasing time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <absl/container/inlined_vector.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::policy {

// ---- Facts ----

// A replica is here and waits for its first release. Its clock starts at the slowest live replica's.
struct Joined {
  ReplicaId replica;
  Clock clock;
};

// A replica is gone: it sends no more facts, and a gradient that it finished and that is not committed is
// void.
struct Left {
  ReplicaId replica;
};

// A released replica finished iteration `clock`; its gradient waits to be committed.
struct Ready {
  ReplicaId replica;
  Clock clock;           // iterations finished, this one included
  Version base;          // the version the gradient was computed on
  std::int64_t samples;  // samples in the gradient
  Duration compute;      // time from release to ready, without waiting
  // time from release until its weights were there; 0: they were there already, or the time is unknown
  Duration pulled{0};
};

// The time that an earlier WakeAt asked for has come.
struct TimerRang {};

// Update `version` of the global weights is complete on every server. Only policies that ask for this fact
// get it (hears_of_completion).
struct Completed {
  Version version;
};

// ---- Orders ----

// The reason of an order, in words that a person can read. It is formatted only on request, because a
// simulation gives millions of orders. `text` outlives every order (a literal); each "{}" in it takes the
// next number.
struct Reason {
  std::string_view text;
  std::int64_t a = 0;
  std::int64_t b = 0;
  friend bool operator==(const Reason&, const Reason&) = default;
};
std::string to_string(const Reason& reason);

struct Contribution {
  ReplicaId replica;
  Clock clock;
  friend auto operator<=>(const Contribution&, const Contribution&) = default;
};

// These gradients together become update `version` of the global weights. Members ascend by replica, so that
// the sum does not depend on their order of arrival.
struct Commit {
  Version version;
  absl::InlinedVector<Contribution, 1> members;
  Reason why;
};

// The replica may pull a version ≥ `version` and start its next iteration.
struct Release {
  ReplicaId replica;
  Version version;
  Reason why;
};

// This finished gradient will never be committed.
struct Discard {
  Contribution contribution;
  Reason why;
};

// Send TimerRang at this time. A later WakeAt replaces an earlier one.
struct WakeAt {
  Time at;
};

using Order = std::variant<Commit, Release, Discard, WakeAt>;

// The orders one fact gives, in order. Numbers the commits, so that no policy has to.
class Orders {
 public:
  // `latest`: the version of the newest commit so far.
  explicit Orders(Version latest) : latest_(latest) {}

  void commit(absl::InlinedVector<Contribution, 1> members, Reason why);
  void release(ReplicaId replica, Reason why) { list_.push_back(Release{replica, latest_, why}); }
  void discard(Contribution contribution, Reason why) { list_.push_back(Discard{contribution, why}); }
  void wake_at(Time at) { list_.push_back(WakeAt{at}); }

  Version latest() const { return latest_; }
  const std::vector<Order>& list() const { return list_; }
  // Forgets the orders, keeps the memory and the numbering.
  void clear() { list_.clear(); }
  // Like clear(), but moves the orders into `taken`, which loses its old contents.
  void move_to(std::vector<Order>& taken) {
    taken.clear();
    list_.swap(taken);
  }

 private:
  Version latest_;
  std::vector<Order> list_;
};

// The promises of a policy for every run, which an observer checks.
struct Bounds {
  std::optional<std::int64_t> gap{};                // finished iterations ahead of the slowest live replica
  std::optional<std::int64_t> version_staleness{};  // τ = v − 1 − u of any commit
  // Supersteps end in a commit of all live replicas. Within one, from the moment when each of them has been
  // ready twice, none finishes more than this many iterations; replicas that join later are not bound.
  std::optional<std::int64_t> quota{};
};

// How the gradients of a commit's members become one sum.
enum class Reduction {
  kAtServers,  // each replica pushes its own as soon as it is ready, and the servers sum
  kInGroup,    // the members reduce among themselves once the commit is ordered, and push the sum
};

class SyncPolicy {
 public:
  virtual ~SyncPolicy() = default;

  // Requires: the replica has not joined before (or has left since).
  virtual void joined(Time now, const Joined& fact, Orders& orders) = 0;
  // Requires: the replica is live.
  virtual void left(Time now, const Left& fact, Orders& orders) = 0;
  // Requires: the replica is live and released, and `clock` is its clock plus one.
  virtual void ready(Time now, const Ready& fact, Orders& orders) = 0;
  virtual void timer(Time, Orders&) {}
  // Completions come in order of the versions.
  virtual void completed(Time, const Completed&, Orders&) {}

  virtual bool hears_of_completion() const { return false; }
  virtual Reduction reduction() const { return Reduction::kAtServers; }
  // How many steps a replica takes by itself in an iteration; it then contributes how far they moved the
  // weights. 0: an iteration is one gradient.
  virtual std::int64_t local_steps() const { return 0; }
  // Whether each commit is a round of all live replicas that got samples for it. Such a commit is a whole
  // update, however few samples there were.
  virtual bool commits_whole_rounds() const { return false; }
  // Whether the next commit has the gradient under way of each of the `live` replicas, whenever these are ready. It then
  // is certain before they are, unless a replica joins or leaves. Requires: all are released or have been ready since.
  virtual bool commits_all(std::size_t live) const {
    static_cast<void>(live);
    return false;
  }
  virtual Bounds bounds() const = 0;
};

}  // namespace paceline::policy
