// For tests: an attempt and everything around it, which does at once what the attempt wants done. Time stands
// still until it is told to pass.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/decisions/coordinator/attempt.h"
#include "paceline/decisions/coordinator/testing/variants.h"

namespace paceline::coordinator {

class AttemptWorld;

// A process's end of its connection.
template <class PeerId, class Out, class In, class SaidOut, class GoneOut>
class FakePeer {
 public:
  using Id = PeerId;
  using Message = Out;
  using Order = In;
  using SaidType = SaidOut;
  using GoneType = GoneOut;

  FakePeer(AttemptWorld& world, Id id) : world_(world), id_(id) {}

  void say(const Out& message);
  // The next order of that kind, if there is one.
  template <class What>
  std::optional<What> heard();
  // The same; an empty one when there is none.
  template <class What>
  What next() {
    return heard<What>().value_or(What());
  }
  template <class What>
  bool hears() {
    return heard<What>().has_value();
  }
  Disconnect disconnect() { return next<Disconnect>(); }
  // Nothing more is said.
  void leave();

  Id id() const { return id_; }

 private:
  AttemptWorld& world_;
  const Id id_;
};

using FakeWorker = FakePeer<WorkerPeer, WorkerMessage, WorkerOrder, WorkerSaid, WorkerGone>;
using FakeServer = FakePeer<ServerPeer, ServerMessage, ServerOrder, ServerSaid, ServerGone>;
using FakeEvaluator = FakePeer<EvaluatorPeer, EvaluatorMessage, EvaluatorOrder, EvaluatorSaid, EvaluatorGone>;

class AttemptWorld {
 public:
  explicit AttemptWorld(AttemptOptions options) : attempt_(std::move(options), now_) {}

  const Attempt& attempt() const { return attempt_; }

  template <class What>
  void happens(What what) {
    carry_out(attempt_.take({now_, std::move(what)}));
  }

  // Time passes in steps, as for a real attempt. Processes that live say so.
  void pass(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds kStep{100};
    for (; time > std::chrono::milliseconds(0); time -= kStep) {
      now_ += std::min(time, kStep);
      beat();
      if (wake_ && now_ >= *wake_) {
        wake_.reset();
        happens(WokeUp{});
      }
      happens(TimePassed{});
    }
  }

  // The attempt's host does nothing for `time`, and then goes on. `heard`: first with what the processes say.
  void stand_still(std::chrono::milliseconds time, bool heard = false) {
    now_ += time;
    if (heard) beat();
    happens(TimePassed{});
  }
  // From now on the processes say nothing.
  void all_hang() { beats_.clear(); }

  template <class Peer>
  std::unique_ptr<Peer> come(const typename Peer::Message& hello) {
    auto peer = std::make_unique<Peer>(*this, typename Peer::Id(next_++));
    boxes<Peer>()[peer->id()];
    peer->say(hello);
    return peer;
  }

  template <class Peer>
  void say(typename Peer::Id id, const typename Peer::Message& message) {
    happens(typename Peer::SaidType{id, message, "somewhere"});
  }
  template <class Peer>
  void leave(typename Peer::Id id) {
    if (boxes<Peer>().erase(id) > 0) happens(typename Peer::GoneType{id});
  }
  template <class Peer>
  std::optional<typename Peer::Order> next(typename Peer::Id id) {
    const auto found = boxes<Peer>().find(id);
    if (found == boxes<Peer>().end() || found->second.orders.empty()) return std::nullopt;
    typename Peer::Order order = std::move(found->second.orders.front());
    found->second.orders.pop_front();
    if (found->second.orders.empty() && found->second.last) leave<Peer>(id);
    return order;
  }

  SteadyTime now() const { return now_; }

  // The attempt's outputs so far.
  std::vector<std::string> news;
  std::vector<control::Fact> facts;
  std::vector<Version> evaluated;
  std::vector<control::SideWork> side_work;
  std::vector<control::ProcessReport> processes;
  std::vector<std::string> said_of_checkpoints;  // "open 1", "count 1", "drop"
  bool data_known = false;
  bool nothing_lost = false;
  bool ended = false;
  std::vector<control::SearchPlan> searches;  // searches that were not made yet
  // The answers that the attempt gets.
  absl::Status recording;
  absl::Status opening;
  absl::Status counting;
  bool searches_at_once = true;

  // Makes the oldest search.
  void search() {
    const control::SearchPlan search = searches.front();
    searches.erase(searches.begin());
    happens(PlanFound{control::searched(search)});
  }

  // The process says that it lives, whenever time passes.
  template <class Peer>
  void keeps_beating(const Peer& peer) {
    beats_.push_back([this, id = peer.id()] {
      if (boxes<Peer>().contains(id)) say<Peer>(id, {Heartbeat()});
    });
  }

 private:
  void beat() {
    for (const auto& one : beats_) one();
  }

  template <class Order>
  struct Box {
    std::deque<Order> orders;
    bool last = false;
  };
  template <class Peer>
  auto& boxes() {
    if constexpr (std::is_same_v<Peer, FakeWorker>) {
      return workers_;
    } else if constexpr (std::is_same_v<Peer, FakeServer>) {
      return servers_;
    } else {
      return evaluators_;
    }
  }

  template <class Boxes, class SendOne>
  static void put(Boxes& boxes, SendOne& send) {
    const auto found = boxes.find(send.to);
    if (found == boxes.end() || found->second.last) return;
    found->second.orders.push_back(std::move(send.order));
    found->second.last = send.last;
  }

  void carry_out(std::vector<Action> actions) {
    for (Action& action : actions) {
      PACELINE_CHECK(!ended, "something is to be done after the end");
      if (auto* send = std::get_if<SendWorker>(&action)) put(workers_, *send);
      if (auto* send = std::get_if<SendServer>(&action)) put(servers_, *send);
      if (const auto* send = std::get_if<SendServers>(&action)) {
        for (const ServerPeer to : send->to) {
          SendServer one{to, send->order};
          put(servers_, one);
        }
      }
      if (auto* send = std::get_if<SendEvaluator>(&action)) put(evaluators_, *send);
      if (const auto* hang_up = std::get_if<HangUp>(&action)) leave<FakeEvaluator>(hang_up->peer);
      if (std::holds_alternative<Begin>(action)) data_known = true;
      if (auto* record = std::get_if<Record>(&action)) facts.push_back(record->fact);
      if (const auto* one = std::get_if<control::Evaluated>(&action)) evaluated.push_back(one->version);
      if (const auto* work = std::get_if<control::SideWork>(&action)) side_work.push_back(*work);
      if (const auto* report = std::get_if<control::ProcessReport>(&action)) processes.push_back(*report);
      if (const auto* wake = std::get_if<WakeUp>(&action)) wake_ = wake->at;
      if (const auto* tell = std::get_if<Tell>(&action); tell != nullptr && tell->remember)
        news.push_back(tell->line);
      if (std::holds_alternative<NothingLost>(action)) nothing_lost = true;
      if (std::holds_alternative<End>(action)) ended = true;
      if (std::holds_alternative<FlushRecords>(action) && !recording.ok())
        return happens(RecordingFailed{recording});
      if (const auto* open = std::get_if<OpenCheckpoint>(&action)) {
        said_of_checkpoints.push_back(fmt::format("open {}", open->version));
        happens(CheckpointOpened{opening.ok() ? absl::StatusOr<std::string>("dir") : opening});
      }
      if (const auto* count = std::get_if<CountCheckpoint>(&action)) {
        said_of_checkpoints.push_back(fmt::format("count {}", count->state.version));
        happens(CheckpointCounted{counting});
      }
      if (std::holds_alternative<DropCheckpoint>(action)) said_of_checkpoints.emplace_back("drop");
      if (const auto* search = std::get_if<control::SearchPlan>(&action)) searches.push_back(*search);
    }
    while (searches_at_once && !searches.empty()) search();
  }

  SteadyTime now_{std::chrono::hours(1)};
  Attempt attempt_;
  std::int64_t next_ = 0;
  std::optional<SteadyTime> wake_;
  std::vector<std::function<void()>> beats_;
  std::map<WorkerPeer, Box<WorkerOrder>> workers_;
  std::map<ServerPeer, Box<ServerOrder>> servers_;
  std::map<EvaluatorPeer, Box<EvaluatorOrder>> evaluators_;
};

template <class PeerId, class Out, class In, class SaidOut, class GoneOut>
void FakePeer<PeerId, Out, In, SaidOut, GoneOut>::say(const Out& message) {
  world_.say<FakePeer>(id_, message);
}

template <class PeerId, class Out, class In, class SaidOut, class GoneOut>
template <class What>
std::optional<What> FakePeer<PeerId, Out, In, SaidOut, GoneOut>::heard() {
  while (auto order = world_.next<FakePeer>(id_)) {
    if (auto* what = std::get_if<What>(&*order)) return std::move(*what);
  }
  return std::nullopt;
}

template <class PeerId, class Out, class In, class SaidOut, class GoneOut>
void FakePeer<PeerId, Out, In, SaidOut, GoneOut>::leave() {
  world_.leave<FakePeer>(id_);
}

}  // namespace paceline::coordinator
