// The coordinator of a job, live: brings events to a coordinator::Attempt, and carries out its actions. It
// decides nothing, and runs on one event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/event_loop.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/control/witnesses.h"
#include "paceline/decisions/coordinator/attempt.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/peer_stream.h"
#include "paceline/records/store/checkpoint_sink.h"

namespace paceline::coordinator_process {

using WorkerStream = rpc::PeerStream<wire::WorkerMessage, wire::WorkerOrder>;
using ServerStream = rpc::PeerStream<wire::ServerMessage, wire::ServerOrder>;
using EvaluatorStream = rpc::PeerStream<wire::EvaluatorMessage, wire::EvaluatorOrder>;

struct CoordinatorOptions {
  coordinator::AttemptOptions attempt;
  std::vector<control::RunListener*> listeners{};  // outlive the coordinator
  // Makes everything durable that the listeners were shown. An error ends the run.
  std::function<absl::Status()> flush_records = [] { return absl::OkStatus(); };
  store::CheckpointSink* checkpoints = nullptr;  // outlives the coordinator
  // True while another host's disk should have the checkpoint that counted last, and has not. Called a few
  // times a second.
  std::function<bool()> awaits_copy = [] { return false; };
  // Gets each process's report of itself, once a second.
  std::function<void(const control::ProcessReport&)> on_process = [](const auto&) {};
  // Gets lengths of shards that were learnt.
  std::function<void(const std::vector<coordinator::ShardRecords>&)> on_shard_lengths = [](const auto&) {};
  // Called once the size of the data set is known, before the first fact.
  std::function<void(const coordinator::Begin&)> on_data_known = [](const auto&) {};
  // Gets one line that a person should see.
  std::function<void(const std::string&)> notice = [](const auto&) {};
  // Gets one line that a person should see and remember: a new set of replicas, or a checkpoint that the run
  // could not go on from.
  std::function<void(const std::string&)> news = [](const auto&) {};
  // Called if nothing that anybody saw of the attempt that was cut short is lost.
  std::function<void()> nothing_lost = [] {};
};

class Coordinator final : public WorkerStream::Listener,
                          public ServerStream::Listener,
                          public EvaluatorStream::Listener {
 public:
  Coordinator(EventLoop& loop, CoordinatorOptions options);

  void received(const WorkerStream::Pointer& stream, wire::WorkerMessage message) override;
  void received(const ServerStream::Pointer& stream, wire::ServerMessage message) override;
  void received(const EvaluatorStream::Pointer& stream, wire::EvaluatorMessage message) override;
  void closed(const WorkerStream::Pointer& stream) override;
  void closed(const ServerStream::Pointer& stream) override;
  void closed(const EvaluatorStream::Pointer& stream) override;

  // Call a few times a second: notices processes that have gone silent, and when all is over.
  void tick();
  // A clean stop: a checkpoint of the newest version, then a disconnect to all. `cannot_start`, `cause`: see
  // StopWanted.
  void ask_stop(const std::string& why, const std::string& cannot_start = "",
                StopCause cause = StopCause::kAsked) {
    take(coordinator::StopWanted{why, cannot_start, cause});
  }
  // Leaves the lead to the host that led before, if nothing would be lost with this one.
  void give_way(const coordinator::LeaderIsBack& to) { take(to); }
  void ask_checkpoint(const std::string& why) { take(coordinator::CheckpointWanted{why}); }
  // Orders an evaluation out of turn, and returns the version that it measures. Errors: those of
  // Attempt::next_to_measure.
  absl::StatusOr<Version> ask_evaluation();
  // Ends the run, because it cannot be recorded.
  void fail(const absl::Status& why) { take(coordinator::RecordingFailed{why}); }

  const coordinator::Attempt& attempt() const { return attempt_; }
  // The job's time; 0 before the data are known.
  Time now() const { return attempt_.time(std::chrono::steady_clock::now()); }

 private:
  // The connections of one kind of process.
  template <class Peer, class Stream>
  struct Connections {
    std::map<Peer, typename Stream::Pointer> streams;
    std::unordered_map<const Stream*, Peer> peers;
  };
  using Answer = std::optional<decltype(coordinator::Event::what)>;

  template <class Peer, class Stream>
  Peer peer_of(Connections<Peer, Stream>& all, const typename Stream::Pointer& stream);
  template <class Gone, class Peer, class Stream>
  void remove(Connections<Peer, Stream>& all, const typename Stream::Pointer& stream);
  template <class Peer, class Stream, class Order>
  static void send(const Connections<Peer, Stream>& all, Peer to, Order order, bool last = false);

  void take(decltype(coordinator::Event::what) what);
  void carry_out(std::vector<coordinator::Action> actions);
  // The event that answers the action, if there is one.
  Answer carry_out(coordinator::Action& action);

  EventLoop& loop_;
  const CoordinatorOptions options_;
  coordinator::Attempt attempt_;
  std::optional<control::Witnesses> witnesses_;  // made once the data are known
  Timer timer_;
  bool awaits_copy_;  // waits until the restart's checkpoint is on another disk as well
  std::int64_t next_peer_ = 0;
  Connections<coordinator::WorkerPeer, WorkerStream> workers_;
  Connections<coordinator::ServerPeer, ServerStream> servers_;
  Connections<coordinator::EvaluatorPeer, EvaluatorStream> evaluators_;
  std::jthread searcher_;  // the search for a plan; one at a time is ordered
};

}  // namespace paceline::coordinator_process
