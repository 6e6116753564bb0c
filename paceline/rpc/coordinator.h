// The live host of a Controller: it turns what peers send into facts, and orders into messages. It decides
// nothing itself. Everything here runs on one event loop's thread.
//
// A run goes through these phases: workers attach and say what their model and data are → the servers start
// from the first worker's initial weights or from a checkpoint → workers join → facts and orders → the last
// evaluation and checkpoint → goodbye to all.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/event_loop.h"
#include "paceline/config/job_config.h"
#include "paceline/control/controller.h"
#include "paceline/control/observer.h"
#include "paceline/control/run_listener.h"
#include "paceline/ps/layout.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/rpc/peer_stream.h"

namespace paceline::rpc {

using WorkerStream = PeerStream<wire::WorkerMessage, wire::WorkerOrder>;
using ServerStream = PeerStream<wire::ServerMessage, wire::ServerOrder>;
using EvaluatorStream = PeerStream<wire::EvaluatorMessage, wire::EvaluatorOrder>;

// Where a run goes on from.
struct Restart {
  control::ControllerState state;
  Duration elapsed{0};
  std::string checkpoint_dir;
};

// Where checkpoints go. All calls on the loop's thread, for one version at a time.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // A folder for the shards to write into.
  virtual absl::StatusOr<std::string> begin(Version version) = 0;
  // Every shard has written: make it count.
  virtual absl::Status finish(const control::ControllerState& state, Duration elapsed) = 0;
};

struct CoordinatorOptions {
  config::JobConfig job;
  std::string job_toml;
  std::optional<Restart> restart;
  std::vector<control::RunListener*> listeners;  // outlive the coordinator
  CheckpointSink* checkpoints = nullptr;         // likewise
  // Told once the size of the data set is known, before the first fact.
  std::function<void(const control::ControllerConfig&)> on_data_known;
  // One line that a person should see.
  std::function<void(const std::string&)> notice;
};

class Coordinator final : public WorkerStream::Listener,
                          public ServerStream::Listener,
                          public EvaluatorStream::Listener {
 public:
  Coordinator(EventLoop& loop, CoordinatorOptions options);

  void received(const WorkerStream::Pointer& stream, const wire::WorkerMessage& message) override;
  void received(const ServerStream::Pointer& stream, const wire::ServerMessage& message) override;
  void received(const EvaluatorStream::Pointer& stream, const wire::EvaluatorMessage& message) override;
  void closed(const WorkerStream::Pointer& stream) override;
  void closed(const ServerStream::Pointer& stream) override;
  void closed(const EvaluatorStream::Pointer& stream) override;

  // To be called a few times a second: notices who has gone silent, and when all is over.
  void tick();
  // A clean stop: a checkpoint of the newest version, then goodbye to all.
  void ask_stop(const std::string& why);

  // The run cannot go on.
  void fail(absl::Status status);

  std::string phase() const;
  bool training() const { return started_.has_value(); }
  Time now() const;
  // After the loop has stopped: why the run could not go on, if it could not.
  const absl::Status& result() const { return result_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Worker {
    WorkerStream::Pointer stream;
    ReplicaId replica;
    std::string name;
    std::optional<wire::WorkerAttached> attached;
    bool boards_sent = false;
    bool joined = false;
    SteadyTime heard;
    std::chrono::duration<double> rhythm{0};  // moving average between two messages
  };
  struct Server {
    ServerStream::Pointer stream;
    std::string board_path;  // empty: not started yet
  };
  struct PendingEvaluation {
    Time at;
    std::int64_t samples = 0;
    std::size_t kept_by = 0;  // servers that keep the version
  };
  struct PendingCheckpoint {
    control::ControllerState state;
    Duration elapsed{0};
    std::size_t written_by = 0;
  };

  // Workers.
  void on_hello(const WorkerStream::Pointer& stream, const wire::WorkerHello& hello);
  ReplicaId new_replica(std::ptrdiff_t place);
  absl::Status on_attached(Worker& worker, const wire::WorkerAttached& attached);
  absl::Status on_ready(Worker& worker, const wire::WorkerReady& ready);
  absl::Status on_message(Worker& worker, const wire::WorkerMessage& message);
  absl::Status learn_job(const wire::WorkerAttached& attached);
  void send_boards(Worker& worker);
  void remove_worker(WorkerStream* stream, const std::string& why);
  static void refuse(const WorkerStream::Pointer& stream, const std::string& why);
  int reader_slot(ReplicaId replica) const;

  // Servers and the evaluator.
  void on_hello(const ServerStream::Pointer& stream, const wire::ServerHello& hello);
  void start_servers_if_ready();
  wire::ServerStart server_start(std::size_t shard) const;
  void on_servers_started();
  wire::Boards boards(int reader) const;
  void tell_servers(const wire::ServerOrder& order);
  void welcome_evaluator();

  // The Controller.
  absl::Status take(decltype(control::Fact::what) what);
  void carry_out(const control::CommitRecord& record);
  void carry_out(const control::Release& release);
  void request_evaluation(const control::CommitRecord& record);
  void on_kept(Version version);
  void send_evaluation(Version version);
  void give_up_evaluations();
  void on_evaluated(const wire::Evaluated& evaluated);
  void drop(Version version);
  void request_checkpoint(Version version, control::ControllerState state);
  void on_written(const wire::ServerWritten& written);

  // The end.
  void finish();
  void finish_if_done();
  void say_goodbye();

  EventLoop& loop_;
  const CoordinatorOptions options_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<control::Observer> observer_;
  std::optional<wire::WorkerAttached> job_facts_;  // the first worker's: model, data and initial weights
  std::vector<ps::Layout> parts_;
  std::map<WorkerStream*, Worker> workers_;
  std::map<ReplicaId, WorkerStream*> by_replica_;
  std::vector<Server> servers_;
  std::set<std::ptrdiff_t> places_taken_;  // ever
  ReplicaId next_replica_;
  bool servers_told_to_start_ = false;
  EvaluatorStream::Pointer evaluator_;
  bool evaluator_has_boards_ = false;
  bool evaluator_gone_ = false;
  std::map<Version, PendingEvaluation> evaluations_;
  std::map<Version, PendingCheckpoint> checkpoints_;
  Version last_checkpoint_{-1};
  std::optional<SteadyTime> started_;
  bool finishing_ = false;
  SteadyTime finishing_at_;
  bool goodbye_said_ = false;
  SteadyTime goodbye_at_;
  absl::Status result_;
};

}  // namespace paceline::rpc
