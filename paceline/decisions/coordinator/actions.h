// The outputs of an attempt. Actions are carried out in their order.
//
// Three of them get an event as an answer (events.h): OpenCheckpoint and CountCheckpoint always, FlushRecords
// if it fails. The answer comes before the remaining actions, and before any other event. SearchPlan gets
// PlanFound later: the search runs while the run goes on. If facts and orders cannot be written, the
// remaining actions are dropped.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/strong_int.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/process_report.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/shard_lengths.h"

namespace paceline::coordinator {

// The connection of a process. All connections of an attempt have different numbers.
using WorkerPeer = StrongInt<struct WorkerPeerTag>;
using ServerPeer = StrongInt<struct ServerPeerTag>;
using EvaluatorPeer = StrongInt<struct EvaluatorPeerTag>;

// The clock of the coordinator's machine. An attempt never reads it: each event has its time.
using SteadyTime = std::chrono::steady_clock::time_point;

template <class Peer, class Order>
struct Send {
  Peer to;
  Order order;
  bool last = false;  // the connection ends after this is sent
};
using SendWorker = Send<WorkerPeer, WorkerOrder>;
using SendServer = Send<ServerPeer, ServerOrder>;
using SendEvaluator = Send<EvaluatorPeer, EvaluatorOrder>;

// The same order to several servers, one after the other.
struct SendServers {
  std::vector<ServerPeer> to;
  ServerOrder order;
};

// Ends the connection, without a message.
struct HangUp {
  EvaluatorPeer peer;
};

// The size of the data set is known, and there is a Controller: the first Record comes later.
struct Begin {
  control::ControllerConfig config;
  policy::Bounds bounds;                            // bounds that the policy keeps
  std::optional<control::ControllerState> state{};  // the state that it goes on from
};

// For the run recorder: a fact, and the Controller's orders.
struct Record {
  control::Fact fact;
  std::vector<control::Order> orders;
};

// Everything recorded so far has to survive this process before the next action.
struct FlushRecords {};

// The Controller wants to be woken at this time. It replaces the time of an earlier WakeUp.
struct WakeUp {
  SteadyTime at;
};

// A folder for a checkpoint of that version: CheckpointOpened says where.
struct OpenCheckpoint {
  Version version;
};
// Every shard of the checkpoint is written: it should count from now on. CheckpointCounted says whether it
// does. While copies are saved (Phase::kSavingCopies) the answer may come later, because the servers keep
// their memory until then.
struct CountCheckpoint {
  control::ControllerState state;
  Duration elapsed{0};
};
// The checkpoint will not count: its files are removed.
struct DropCheckpoint {};

// One line for people.
struct Tell {
  std::string line;
  bool remember = false;  // for later readers who ask what became of the run
};

// Lengths of shards that were learnt, for the attempts after this one.
struct NoteShardLengths {
  std::vector<ShardRecords> lengths;
};

// The attempt that was cut short lost no version that a process saw.
struct NothingLost {};

// The attempt is over.
struct End {};

using Action = std::variant<SendWorker, SendServer, SendServers, SendEvaluator, HangUp, Begin, Record,
                            FlushRecords, WakeUp, OpenCheckpoint, CountCheckpoint, DropCheckpoint,
                            control::Evaluated, control::SideWork, control::ProcessReport,
                            control::SearchPlan, Tell, NoteShardLengths, NothingLost, End>;

// The parts of an attempt put their actions here.
class Outbox {
 public:
  template <class What>
  void put(What what) {
    actions_.emplace_back(std::move(what));
  }
  void send(WorkerPeer to, WorkerOrder order) { put(SendWorker{to, std::move(order)}); }
  void send(ServerPeer to, ServerOrder order) { put(SendServer{to, std::move(order)}); }
  void send(EvaluatorPeer to, EvaluatorOrder order) { put(SendEvaluator{to, std::move(order)}); }
  void tell(std::string line) { put(Tell{std::move(line)}); }
  void tell_and_remember(std::string line) { put(Tell{std::move(line), true}); }

  // Sends the last order, and ends the connection.
  void send_disconnect(WorkerPeer to, Disconnect disconnect) {
    put(SendWorker{to, std::move(disconnect), true});
  }
  void send_disconnect(ServerPeer to, Disconnect disconnect) {
    put(SendServer{to, std::move(disconnect), true});
  }
  void send_disconnect(EvaluatorPeer to, Disconnect disconnect) {
    put(SendEvaluator{to, std::move(disconnect), true});
  }
  // The process was given up; it may come again as a new one.
  template <class Peer>
  void give_up(Peer to, const std::string& why) {
    send_disconnect(to, Disconnect{.why = why, .again = true});
  }
  // The process is not wanted in this job.
  template <class Peer>
  void refuse(Peer to, const std::string& why, Disconnect::Reason reason = Disconnect::Reason::kNone) {
    send_disconnect(to, Disconnect{.refused = true, .why = why, .reason = reason});
  }

  std::vector<Action> take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
};

}  // namespace paceline::coordinator
