// What an attempt tells the world to do. Actions are carried out in their order.
//
// Three of them are answered by an event (events.h): OpenCheckpoint and CountCheckpoint always, FlushRecords
// where it fails. The answer comes before what is left of the actions, and before any other event. SearchPlan
// is answered by PlanFound, later: it is searched while the run goes on. Where facts and orders cannot be
// written, what is left of the actions is dropped.
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
#include "paceline/control/controller.h"
#include "paceline/control/run_listener.h"
#include "paceline/store/process_report.h"
#include "paceline/wire/disconnect.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

// A process's connection. No two of an attempt have the same number, whatever they are to.
using WorkerPeer = StrongInt<struct WorkerPeerTag>;
using ServerPeer = StrongInt<struct ServerPeerTag>;
using EvaluatorPeer = StrongInt<struct EvaluatorPeerTag>;

// Of the machine that the coordinator is on. An attempt never asks for it: events say when they happened.
using SteadyTime = std::chrono::steady_clock::time_point;

template <class Peer, class Order>
struct Send {
  Peer to;
  Order order;
  bool last = false;  // the connection ends once this has left
};
using SendWorker = Send<WorkerPeer, wire::WorkerOrder>;
using SendServer = Send<ServerPeer, wire::ServerOrder>;
using SendEvaluator = Send<EvaluatorPeer, wire::EvaluatorOrder>;

// Ends the connection, without a word.
struct HangUp {
  EvaluatorPeer peer;
};

// The size of the data set is known, and there is a Controller: the first Record comes later.
struct Begin {
  control::ControllerConfig config;
  policy::Bounds bounds;                            // that the policy keeps
  std::optional<control::ControllerState> state{};  // that it goes on from
};

// For the run recorder: a fact, and what the Controller ordered.
struct Record {
  control::Fact fact;
  std::vector<control::Order> orders;
};

// What was recorded is to outlive this process before anything else is done.
struct FlushRecords {};

// The Controller wants to be woken then, and not at a time that was said before.
struct WakeUp {
  SteadyTime at;
};

// A folder for a checkpoint of that version: CheckpointOpened says where.
struct OpenCheckpoint {
  Version version;
};
// Every shard of it is written: it is to count from now on. CheckpointCounted says whether it does. While
// copies are saved (Phase::kSavingCopies) that may come later, as what servers have in memory waits for it.
struct CountCheckpoint {
  control::ControllerState state;
  Duration elapsed{0};
};
// It will not count: what there is of it goes.
struct DropCheckpoint {};

// One line for people.
struct Tell {
  std::string line;
  bool remember = false;  // for those who look later: what became of the run
};

// Nothing is lost that anybody saw of the attempt that was cut short.
struct NothingLost {};

// The attempt is over.
struct End {};

using Action =
    std::variant<SendWorker, SendServer, SendEvaluator, HangUp, Begin, Record, FlushRecords, WakeUp,
                 OpenCheckpoint, CountCheckpoint, DropCheckpoint, control::Evaluated, control::SideWork,
                 store::ProcessReport, control::SearchPlan, Tell, NothingLost, End>;

// Where the parts of an attempt put what they want done.
class Outbox {
 public:
  template <class What>
  void put(What what) {
    actions_.emplace_back(std::move(what));
  }
  void send(WorkerPeer to, wire::WorkerOrder order) { put(SendWorker{to, std::move(order)}); }
  void send(ServerPeer to, wire::ServerOrder order) { put(SendServer{to, std::move(order)}); }
  void send(EvaluatorPeer to, wire::EvaluatorOrder order) { put(SendEvaluator{to, std::move(order)}); }
  void tell(std::string line) { put(Tell{std::move(line)}); }
  void tell_and_remember(std::string line) { put(Tell{std::move(line), true}); }

  // The last order, and the end of the connection.
  void send_disconnect(WorkerPeer to, const wire::Disconnect& disconnect) {
    last<SendWorker>(to, disconnect);
  }
  void send_disconnect(ServerPeer to, const wire::Disconnect& disconnect) {
    last<SendServer>(to, disconnect);
  }
  void send_disconnect(EvaluatorPeer to, const wire::Disconnect& disconnect) {
    last<SendEvaluator>(to, disconnect);
  }
  // It was given up; it may come again as a new one.
  template <class Peer>
  void give_up(Peer to, const std::string& why) {
    send_disconnect(to, wire::given_up(why));
  }
  // It is not wanted in this job.
  template <class Peer>
  void refuse(Peer to, const std::string& why, wire::Disconnect::Reason reason = wire::Disconnect::NONE) {
    send_disconnect(to, wire::refused(why, reason));
  }

  std::vector<Action> take() { return std::exchange(actions_, {}); }

 private:
  template <class SendOne, class Peer>
  void last(Peer to, const wire::Disconnect& disconnect) {
    SendOne send{to, {}, true};
    *send.order.mutable_disconnect() = disconnect;
    put(std::move(send));
  }

  std::vector<Action> actions_;
};

}  // namespace paceline::coordinator
