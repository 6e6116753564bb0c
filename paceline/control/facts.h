// What the world tells the Controller. A run is the sequence of its facts: the same facts give the same
// orders, so a recorded run can be replayed.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "paceline/base/ids.h"
#include "paceline/base/metrics.h"
#include "paceline/base/time.h"

namespace paceline::control {

struct ReplicaJoined {
  ReplicaId replica;
  std::string name;        // of its place in the cluster ("w2"); after a restart it keeps that place's clock
  std::int64_t batch = 0;  // samples an iteration
};

struct ReplicaLeft {
  ReplicaId replica;
  std::string why;  // one line for people
};

struct ReplicaReady {
  ReplicaId replica;
  Clock clock;
  Version base;
  Duration compute{0};
  double loss = 0;       // of this iteration; nothing is decided by it
  Metrics metrics = {};  // likewise
};

struct TimerRang {};

// Stop early: no more releases; whatever is committed stays.
struct StopAsked {
  std::string why;
};

// Version `version` is complete on every server. Told only where the policy wants to hear it.
struct CommitComplete {
  Version version;
};

struct Fact {
  Time at;
  std::variant<ReplicaJoined, ReplicaLeft, ReplicaReady, TimerRang, StopAsked, CommitComplete> what;
};

}  // namespace paceline::control
