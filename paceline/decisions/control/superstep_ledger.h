// Counts what each replica finishes within a superstep, for the Observer: from a commit of all live replicas
// to the next, and from the moment when each of them has been ready twice (see policy::Bounds::quota). A
// replica is live from its release until it is parked or gone. Every operation is O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/base/ids.h"

namespace paceline::control {

class SuperstepLedger {
 public:
  // Requires: it is not live.
  void enter(ReplicaId replica);
  // Nothing happens when it is not live.
  void leave(ReplicaId replica);
  // How many iterations the replica has finished since that moment, this one included; 0 when the moment has
  // not come before this iteration, and for one that was not live when it came. Requires: it is live.
  std::int64_t ready(ReplicaId replica);
  // A commit of gradients of so many live replicas.
  void committed(std::size_t members);

 private:
  struct Entry {
    bool live = false;
    std::int64_t superstep = -1;  // the rest is of this one; of another one it counts for nothing
    bool bound = true;            // the replica was live when the moment came, or the moment is still to come
    int readies = 0;              // 0, 1, or 2 for twice and more
    std::int64_t finished = 0;    // since the moment
  };

  Entry& entry(ReplicaId replica);
  void look_whether_all_were_ready_twice() { all_twice_ = all_twice_ || (live_ > 0 && twice_ == live_); }

  std::vector<Entry> entries_;  // index: replica id
  std::int64_t superstep_ = 0;
  std::size_t live_ = 0;
  std::size_t twice_ = 0;   // live replicas that were ready twice in this superstep
  bool all_twice_ = false;  // the moment has come
};

}  // namespace paceline::control
