// The inputs of the Controller. A run is the sequence of its facts: the same facts give the same orders, so a
// recorded run can be replayed.
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
#include "paceline/decisions/planner/plan.h"

namespace paceline::control {

struct ReplicaJoined {
  ReplicaId replica;
  std::string name;  // name of its place in the cluster ("w2"); after a restart it keeps that place's clock
  std::int64_t batch = 0;  // samples an iteration
  // Its place in the plan that is in use, if a planner made that.
  std::optional<std::int32_t> place = {};
};

struct ReplicaLeft {
  ReplicaId replica;
  std::string why;  // one line for people
  // Its program failed because its batch was so small: no lease has fewer samples from now on.
  std::optional<std::int64_t> least_batch = {};
};

// How much a gradient may count: more than any number of tokens, and so little that a sum of weights is finite.
constexpr double kMostWeight = 1e15;
inline bool is_weight(double weight) { return weight >= 0 && weight <= kMostWeight; }

struct ReplicaReady {
  ReplicaId replica;
  Clock clock;
  Version base;
  Duration compute{0};
  double loss = 0;       // loss of this iteration; no decision depends on it
  Metrics metrics = {};  // no decision depends on them either
  // How long each stage of its pipeline worked, in their order. Only if a planner made the plan.
  std::vector<Duration> worked = {};
  // Parts of `compute`, at its beginning: until its samples were loaded, and from then on until its weights
  // were there. Policies hear when that was, unless it was before the samples were loaded: then `pulling` is 0.
  Duration loading{0};
  Duration pulling{0};
  // How much its mean gradient counts beside the others' in a commit, from 0 to kMostWeight: the number of its
  // tokens, for example. nullopt: as much as its samples.
  std::optional<double> weight = {};
  // The number of samples of all epochs together, if the replica came to the end of data whose length nobody knew.
  // Samples of its lease from there on do not exist.
  std::optional<std::int64_t> data_end = {};
};

struct TimerRang {};

// Why a run finishes.
enum class FinishCause {
  kEverySample,  // is committed
  kTarget,       // is reached
  kStopped,      // because somebody asked for it, or because it cannot go on
};

// Stop early: no more releases; commits stay.
struct StopAsked {
  std::string why;
  FinishCause cause = FinishCause::kStopped;
};

// Version `version` is complete on every server. Told only where the policy wants to hear it.
struct CommitComplete {
  Version version;
};

// A device of a run whose plan may change, by its place in the job's list. It forms replicas when a plan uses
// it.
struct DeviceJoined {
  std::int32_t device = 0;
  std::int64_t memory_bytes =
      0;  // the memory that a plan may fill there, as its host measured it; 0: not measured
};
struct DeviceLeft {
  std::int32_t device = 0;
};
// The device had no memory for its stage of the plan in use. Its replica has left, and it stays.
struct DeviceOutOfMemory {
  std::int32_t device = 0;
  std::int64_t samples = 0;  // samples of its replica's iteration; 0: as the plan says
};

// A measurement of the link from one host to another. It does not change the plan at once: it counts at the
// end of the batch.
struct LinkMeasured {
  HostPlace from{}, to{};
  std::int64_t bytes = 0;  // at a time
  Duration took{0};
  bool shared = false;  // servers sent it. Several send at once, so the link may carry more
};

// The result of the newest SearchPlan.
struct PlanSearched {
  std::optional<planner::Plan> plan{};  // nullopt: none was found
  std::string impossible{};             // why no plan is possible; empty: one is
};

struct Fact {
  Time at;
  std::variant<ReplicaJoined, ReplicaLeft, ReplicaReady, TimerRang, StopAsked, CommitComplete, DeviceJoined,
               DeviceLeft, DeviceOutOfMemory, LinkMeasured, PlanSearched>
      what;
};

}  // namespace paceline::control
