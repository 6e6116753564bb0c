// The inputs and outputs of a Supervisor.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/stop_cause.h"
#include "paceline/supervisor/leader_failover.h"

namespace paceline::supervisor {

// How a process ended.
struct ProcessEnd {
  ExitReason exit_reason = ExitReason::kUnsaid;
  bool success = false;   // exit status 0
  bool killed = false;    // by a signal, maybe of its own fault
  std::string in_words;   // "exit status 2", "killed by signal 9 (Killed)"
  absl::Status reason{};  // what it said, or where its log is; of success OK, unless kInterrupted
};

// ---- Events ----

// The first one.
struct Begun {};

// A server, a worker or the evaluator. `newest`: checkpoint of the run.
struct MemberEnded {
  std::string name;
  ProcessEnd end;
  std::optional<Version> newest{};
  bool has_trained = false;  // the run, as its folder says
};

struct CoordinatorEnded {
  ProcessEnd end;
  std::optional<Version> newest{};
  bool has_trained = false;  // the run, as its folder says
};

// What StartMember gave.
struct MemberStarted {
  std::string name;
  absl::Status status;
};

// What StartCoordinator gave: it listens; or why not, and whether that was because somebody killed it.
struct CoordinatorStarted {
  absl::Status status;
  bool killed = false;
};

// The coordinator answered.
struct Answered {
  std::string run;  // its folder
  std::int64_t attempt = 0;
  bool trains = false;
  std::vector<std::string> missing{};  // processes that it has places for
};
// It did not. `nobody`: nobody is there; else it may just be slow.
struct NotAnswered {
  bool nobody = true;
};

// As LookAtFolder wanted it.
struct FolderSeen {
  LeaderFailover::Seen seen;
};

// All events since the last one have been given. Comes a few times a second.
struct TimePassed {};

// A clean stop is wanted: a checkpoint, then the end.
struct StopWanted {
  std::string why;
  StopCause cause = StopCause::kAsked;
};
// At once.
struct KillWanted {};

struct Event {
  std::chrono::steady_clock::time_point at;  // not before the event before
  std::variant<Begun, MemberEnded, CoordinatorEnded, MemberStarted, CoordinatorStarted, Answered, NotAnswered,
               FolderSeen, TimePassed, StopWanted, KillWanted>
      what;
};

// ---- Actions ----
// They are carried out in their order. StartMember, StartCoordinator and LookAtFolder are answered by an
// event, before what is left of the actions and before any other event.

struct StartMember {
  std::string name;
};
struct KillMember {
  std::string name;
};
struct StartCoordinator {
  bool again = false;                 // of a run that has begun
  std::optional<HostRank> without{};  // this host leads the run now, and that one is gone
  std::string run{};                  // its folder then
};
struct KillCoordinator {};
// It could not lead: nobody comes to it.
struct DropCoordinator {};

// The processes of this host find the coordinator there. Nothing: at this host's own.
struct FollowLeader {
  std::optional<std::string> address;
};

// The run is over: a process of this host need not wait for a coordinator any more.
struct EndWaiting {};

// The coordinator is to end the run.
struct AskStop {
  std::string why;
  std::string cannot_start{};  // why a process of another host than the coordinator's could not; or empty
  StopCause cause = StopCause::kAsked;
};

struct LookAtFolder {
  std::string run;
};

// One line for people.
struct Tell {
  std::string line;
};

using Action = std::variant<StartMember, KillMember, StartCoordinator, KillCoordinator, DropCoordinator,
                            FollowLeader, EndWaiting, AskStop, LookAtFolder, Tell>;

}  // namespace paceline::supervisor
