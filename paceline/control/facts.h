// What the world tells the Controller. A run is the sequence of its facts: the same facts give the same
// orders, so a recorded run can be replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/metrics.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/planner/plan.h"

namespace paceline::control {

struct ReplicaJoined {
  ReplicaId replica;
  std::string name;        // of its place in the cluster ("w2"); after a restart it keeps that place's clock
  std::int64_t batch = 0;  // samples an iteration
  // In the plan that is in use, where a planner made it.
  std::optional<std::int32_t> place = {};
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
  Metrics metrics = {};  // nothing is decided by them either
  // What each stage of its pipeline worked, in their order. Only where a planner made the plan.
  std::vector<Duration> worked = {};
  // Parts of `compute`, at its beginning: until its samples were loaded, and from then on until its weights
  // were there. Policies hear when that was.
  Duration loading{0};
  Duration pulling{0};
};

struct TimerRang {};

// Why a run finishes.
enum class FinishCause {
  kEverySample,  // is committed
  kTarget,       // is reached
  kStopped,      // as somebody asked for, or because it cannot go on
};

// Stop early: no more releases; whatever is committed stays.
struct StopAsked {
  std::string why;
  FinishCause cause = FinishCause::kStopped;
};

// Version `version` is complete on every server. Told only where the policy wants to hear it.
struct CommitComplete {
  Version version;
};

// A device of a run whose plan may change, by its place in the job's list. It forms replicas once a plan has
// it.
struct DeviceJoined {
  std::int32_t device = 0;
};
struct DeviceLeft {
  std::int32_t device = 0;
};

// What was seen to come over the link from one host to another. The plan is not changed by it at once: it
// counts with the end of the batch.
struct LinkMeasured {
  HostPlace from{}, to{};
  std::int64_t bytes = 0;  // at a time
  Duration took{0};
  bool shared = false;  // servers sent it. Several send at once, so the link may carry more
};

// What the newest SearchPlan gave.
struct PlanSearched {
  std::optional<planner::Plan> plan{};  // nothing where none was found
  std::string impossible{};             // why there can be none; empty: there can
};

struct Fact {
  Time at;
  std::variant<ReplicaJoined, ReplicaLeft, ReplicaReady, TimerRang, StopAsked, CommitComplete, DeviceJoined,
               DeviceLeft, LinkMeasured, PlanSearched>
      what;
};

}  // namespace paceline::control
