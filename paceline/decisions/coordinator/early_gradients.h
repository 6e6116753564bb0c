// Decides which gradients the servers of several hosts send before they are in a commit. If a replica has to
// wait for others, its gradient goes ahead, so that not all gradients of a commit travel at the same moment.
// Pure.
//
// Invariant: a commit may use only the newest announced gradient of each host; earlier ones are never named
// again.
#pragma once

#include <map>
#include <optional>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/replica_table.h"

namespace paceline::coordinator {

class EarlyGradients {
 public:
  // The replica's gradient is ready now.
  void ready(ReplicaId replica, Clock clock) { ready_ = {replica, clock}; }
  // A commit has this one. Its number; 0: it was not announced, or another one of that host was after it.
  EarlyNumber committed(ReplicaId replica, Clock clock);
  // The gradient will be in no commit.
  void discarded(ReplicaId replica, Clock clock);
  // The replica has no gradient after all: its samples lie behind the end of the data.
  void parked(ReplicaId replica) {
    if (ready_ && ready_->replica == replica) ready_.reset();
  }
  // Announces the ready gradient if it is still unused, and returns the order for the servers. Returns
  // nullopt also if its replica is gone, or if another replica has its gradient on the same host, because
  // their sum would go.
  std::optional<SendEarly> announce(ReplicaTable& replicas);

 private:
  struct Gradient {
    ReplicaId replica;
    Clock clock;
    friend bool operator==(const Gradient&, const Gradient&) = default;
  };
  struct Announced {
    EarlyNumber number;                // the last of that host
    std::optional<Gradient> gradient;  // nothing: a commit has it
  };
  std::optional<Gradient> ready_;
  std::map<HostPlace, Announced> announced_;
};

}  // namespace paceline::coordinator
