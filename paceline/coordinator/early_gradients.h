// Which gradients servers of several hosts send before they are in a commit. A replica that has to wait for
// others has its gradient go ahead, so that not all of a commit are on their way at the same moment. Pure.
//
// What always holds: of each host the newest one that was announced is what a commit may take as it came;
// those before it are never named again.
#pragma once

#include <map>
#include <optional>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/coordinator/replica_table.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class EarlyGradients {
 public:
  // This one is ready now.
  void ready(ReplicaId replica, Clock clock) { ready_ = {replica, clock}; }
  // A commit has this one. Its number; 0: it was not announced, or another one of that host was after it.
  EarlyNumber committed(ReplicaId replica, Clock clock);
  // This one will be in no commit.
  void discarded(ReplicaId replica, Clock clock);
  // Announces the one that is ready if nothing became of it yet: the order for the servers. Nothing as well
  // where its replica is gone, or another one leaves its gradient on the same host: their sum would go.
  std::optional<wire::SendEarly> announce(ReplicaTable& replicas);

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
