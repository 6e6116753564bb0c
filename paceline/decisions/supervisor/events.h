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
#include "paceline/decisions/supervisor/leader_failover.h"

namespace paceline::supervisor {

// How a process ended.
struct ProcessEnd {
  ExitReason exit_reason = ExitReason::kUnsaid;
  bool success = false;  // exit status 0
  bool killed = false;   // ended by a signal, which may be its own fault
  std::string in_words;  // "exit status 2", "killed by signal 9 (Killed)"
  // the process's own error, or the place of its log; OK after a success, unless kInterrupted
  absl::Status reason{};
};

// ---- Events ----

// The first event.
struct Begun {};

// A server, a worker or the evaluator ended. `newest`: the run's newest checkpoint.
struct MemberEnded {
  std::string name;
  ProcessEnd end;
  std::optional<Version> newest{};
  bool has_trained = false;  // whether the run has, according to its folder
};

struct CoordinatorEnded {
  ProcessEnd end;
  std::optional<Version> newest{};
  bool has_trained = false;  // whether the run has, according to its folder
};

// The result of StartMember.
struct MemberStarted {
  std::string name;
  absl::Status status;
};

// The result of StartCoordinator: OK if it listens; else why not, and whether it was killed.
// `evaluates`: whether the run's own job has an evaluator, if that is known. A host that does not lead has not asked its
// program.
struct CoordinatorStarted {
  absl::Status status;
  bool killed = false;
  std::optional<bool> evaluates{};
};

// The coordinator answered a question about its status.
struct Answered {
  std::string run;  // its folder
  std::int64_t attempt = 0;
  bool trains = false;
  std::vector<std::string> missing{};  // processes for which it has places
};
// The coordinator did not answer. `nobody`: nothing listens there; otherwise it may just be slow.
struct NotAnswered {
  bool nobody = true;
};

// Another host leads the run by now, and trains, while the coordinator here only waits for its processes.
struct LedElsewhere {
  LeaderFailover::Leader leader;
};

// This host took over, and the host before it answers again, as the leader of the same run.
struct LeaderIsBack {};

// The result of LookAtFolder.
struct FolderSeen {
  LeaderFailover::Seen seen;
};

// All events since the last TimePassed have been given. Comes a few times a second.
struct TimePassed {};

// A clean stop is wanted: a checkpoint, then the end.
struct StopWanted {
  std::string why;
  StopCause cause = StopCause::kAsked;
};
// The end is wanted at once.
struct KillWanted {};

struct Event {
  std::chrono::steady_clock::time_point at;  // not earlier than the event before
  std::variant<Begun, MemberEnded, CoordinatorEnded, MemberStarted, CoordinatorStarted, Answered, NotAnswered,
               LedElsewhere, LeaderIsBack, FolderSeen, TimePassed, StopWanted, KillWanted>
      what;
};

// Carry them out in their order. StartMember, StartCoordinator and LookAtFolder are answered by an event,
// which comes before the remaining actions and before any other event.

struct StartMember {
  std::string name;
};
struct KillMember {
  std::string name;
};
struct StartCoordinator {
  bool again = false;                 // whether it continues a run that has begun
  bool hosts_start = false;           // this launcher has just been started: maybe all hosts are starting
  std::optional<HostRank> without{};  // the lost host in whose place this host leads the run now
  std::string run{};                  // the folder of that run
};
struct KillCoordinator {};
// The coordinator here could not lead, or leads no more: nobody comes to it.
struct DropCoordinator {};

// Tells the processes of this host where to find the coordinator. Nothing: on this host.
struct FollowLeader {
  std::optional<std::string> address;
};

// The run is over: the processes of this host need not wait for a coordinator any more.
struct EndWaiting {};

// Asks the coordinator to end the run.
struct AskStop {
  std::string why;
  // the reason why a process of another host than the coordinator's could not start; or empty
  std::string cannot_start{};
  StopCause cause = StopCause::kAsked;
};

// Asks the coordinator here to leave the lead to the host before, if nothing has been done for the run yet.
struct GiveWay {
  LeaderFailover::Leader to;
};

struct LookAtFolder {
  std::string run;
};

// One line for people.
struct Tell {
  std::string line;
};

using Action = std::variant<StartMember, KillMember, StartCoordinator, KillCoordinator, DropCoordinator,
                            FollowLeader, EndWaiting, AskStop, GiveWay, LookAtFolder, Tell>;

}  // namespace paceline::supervisor
