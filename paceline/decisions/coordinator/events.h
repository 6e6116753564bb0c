// The inputs of an attempt: everything that it knows.
#pragma once

#include <string>
#include <variant>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/stop_cause.h"
#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

// A process sent a message. The messages of one process come in their order.
template <class Peer, class Message>
struct Said {
  Peer peer;
  Message message;
  std::string from;  // its address, for people
};
using WorkerSaid = Said<WorkerPeer, WorkerMessage>;
using ServerSaid = Said<ServerPeer, ServerMessage>;
using EvaluatorSaid = Said<EvaluatorPeer, EvaluatorMessage>;

// The connection of a process ended: the process is gone, or its last message was sent. Comes once, last.
struct WorkerGone {
  WorkerPeer peer;
};
struct ServerGone {
  ServerPeer peer;
};
struct EvaluatorGone {
  EvaluatorPeer peer;
};

// An event that only says that time passed; comes a few times a second.
struct TimePassed {};

// The time of the latest WakeUp has come.
struct WokeUp {};

// A person or a process wants a clean stop: a checkpoint of the newest version, then a disconnect to all.
struct StopWanted {
  std::string why;
  std::string cannot_start{};  // why a process of a host could not start: a run that has not begun fails then
  StopCause cause = StopCause::kAsked;
};

// The host that led before this one took over is back, and leads the run.
struct LeaderIsBack {
  HostRank host;
  std::string address;
};

// Somebody wants a checkpoint of the newest version, and the run to go on. `why`: a few words for people.
struct CheckpointWanted {
  std::string why;
};

// A person asks for an evaluation of the newest version. No effect if next_to_measure() has an error.
struct EvaluationWanted {};

// Facts and orders cannot be written any more.
struct RecordingFailed {
  absl::Status why;
};

struct CheckpointOpened {
  absl::StatusOr<std::string> folder;
};
struct CheckpointCounted {
  absl::Status status;
};

// Another host's disk has the checkpoint that this attempt goes on from, too, or no other host can have it:
// only if AttemptOptions::awaits_copy.
struct RestartKept {};

// The result of the newest SearchPlan.
struct PlanFound {
  control::PlanSearched result;
};

struct Event {
  SteadyTime at;  // not earlier than the event before
  std::variant<WorkerSaid, ServerSaid, EvaluatorSaid, WorkerGone, ServerGone, EvaluatorGone, TimePassed,
               WokeUp, StopWanted, LeaderIsBack, CheckpointWanted, EvaluationWanted, RecordingFailed,
               CheckpointOpened, CheckpointCounted, RestartKept, PlanFound>
      what;
};

}  // namespace paceline::coordinator
