// The live coordinator on its port: peers' messages reach the attempt, the attempt's actions reach the peers,
// and time passes by itself. An attempt's decisions are tested without a port (coordinator/attempt_test.cc).
#include "paceline/processes/coordinator_process/coordinator.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/coordinator_process/coordinator_server.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/single_call.h"

namespace paceline::coordinator_process {
namespace {

constexpr std::int64_t kSamples = 64;
const rpc::Access kAccess{std::nullopt, "a token"};

// A peer's end of a stream, which sends any message.
template <class Out, class In>
class Peer {
 public:
  explicit Peer(const auto& open) : stream_(open(&context_)) {}
  ~Peer() { context_.TryCancel(); }

  void say(const Out& message) { stream_->Write(message); }
  // The next order of that kind; an empty one if the stream has ended.
  In next(typename In::WhatCase what) {
    In order;
    while (stream_->Read(&order)) {
      if (order.what_case() == what) return order;
    }
    return {};
  }
  bool ended() {
    In order;
    return !stream_->Read(&order);
  }
  // Ends the stream.
  void leave() {
    context_.TryCancel();
    while (!ended()) {
    }
    stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Out, In>> stream_;
};

using Server = Peer<wire::ServerMessage, wire::ServerOrder>;
using WorkerEnd = Peer<wire::WorkerMessage, wire::WorkerOrder>;
using Evaluator = Peer<wire::EvaluatorMessage, wire::EvaluatorOrder>;

class CoordinatorTest : public testing::Test, public store::CheckpointSink, public control::RunListener {
 protected:
  absl::StatusOr<std::string> begin(Version) override { return "dir"; }
  absl::Status finish(const control::ControllerState& state, Duration) override {
    counted_.push_back(state.version.value());
    return absl::OkStatus();
  }
  void give_up() override {}
  void on_fact(const control::Fact&) override { ++facts_; }
  void on_order(Time, const control::Order&) override { ++orders_; }
  void on_evaluated(const control::Evaluated& evaluated) override {
    evaluated_.push_back(evaluated.version.value());
  }

  void start(const std::string& more) {
    CoordinatorOptions options;
    options.attempt.job_toml = "name = \"small\"\nbatch = 8\n" + more;
    options.attempt.job =
        config::coordinator_settings(config::parse_job(options.attempt.job_toml, "job.toml").value());
    options.listeners = {this};
    options.checkpoints = this;
    options.notice = [this](const std::string& line) { notices_.push_back(line); };
    coordinator_.emplace(loop_, std::move(options));
    port_ = CoordinatorServer::start(rpc::listen_for_job("127.0.0.1:0").value(), loop_, &*coordinator_,
                                     {.access = kAccess, .status = {}, .notice = [](const auto&) {}})
                .value();
    stub_ = wire::Coordinator::NewStub(rpc::channel_to(port_->address(), kAccess));
    thread_ =
        std::jthread([this] { loop_.run(std::chrono::milliseconds(10), [&] { coordinator_->tick(); }); });
  }
  void TearDown() override {
    loop_.post([this] { loop_.stop(); });
    if (thread_.joinable()) thread_.join();
    port_.reset();
  }

  template <class One>
  std::unique_ptr<One> open(auto call) {
    return std::make_unique<One>([&](grpc::ClientContext* context) {
      rpc::introduce(*context, kAccess);
      context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      return call(context);
    });
  }
  std::unique_ptr<WorkerEnd> worker() {
    auto made = open<WorkerEnd>([this](auto* context) { return stub_->Work(context); });
    wire::WorkerMessage message;
    message.mutable_hello()->set_name("w0");
    made->say(message);
    ps::Layout layout;
    layout.add("a", ps::TensorKind::kParameter, {8});
    message.mutable_attached()->set_dataset_size(kSamples);
    *message.mutable_attached()->mutable_layout() = wire::to_wire(layout);
    message.mutable_attached()->set_gradient_path("path");
    made->say(message);
    return made;
  }
  std::unique_ptr<Server> server() {
    auto made = open<Server>([this](auto* context) { return stub_->Serve(context); });
    wire::ServerMessage message;
    message.mutable_hello();
    made->say(message);
    made->next(wire::ServerOrder::kStart);
    message.mutable_started()->add_board_paths("board");
    made->say(message);
    return made;
  }
  static void join(WorkerEnd& worker, Server& server) {
    worker.next(wire::WorkerOrder::kBoards);
    wire::WorkerMessage message;
    message.mutable_joined();
    worker.say(message);
    message.mutable_role_taken()->set_replica(worker.next(wire::WorkerOrder::kRole).role().replica());
    worker.say(message);
    wire::ServerMessage mapped;
    mapped.mutable_mapped()->set_replica(
        server.next(wire::ServerOrder::kMapGradient).map_gradient().replica());
    server.say(mapped);
  }
  static wire::WorkerMessage ready(const wire::WorkerRelease& release) {
    wire::WorkerMessage message;
    message.mutable_ready()->set_clock(release.clock());
    message.mutable_ready()->set_base(release.version());
    message.mutable_ready()->set_compute_ns(10);
    message.mutable_ready()->set_worked_ns(10);
    return message;
  }

  // The loop's thread uses these while it runs.
  std::vector<std::int64_t> counted_, evaluated_;
  std::vector<std::string> notices_;
  int facts_ = 0, orders_ = 0;
  EventLoop loop_;
  std::optional<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorServer> port_;
  std::unique_ptr<wire::Coordinator::Stub> stub_;
  std::jthread thread_;
};

TEST_F(CoordinatorTest, AWholeRun) {
  start("epochs = 1\n");
  const auto training = worker();
  const auto serving = server();
  const auto measuring = open<Evaluator>([this](auto* context) { return stub_->Evaluate(context); });
  wire::EvaluatorMessage measured;
  measured.mutable_hello();
  measuring->say(measured);
  measured.mutable_prepared();
  measuring->say(measured);
  join(*training, *serving);
  for (std::int64_t i = 1; i <= kSamples / 8; ++i) {
    const wire::WorkerRelease release = training->next(wire::WorkerOrder::kRelease).release();
    EXPECT_EQ(release.clock(), i);
    training->say(ready(release));
    EXPECT_EQ(serving->next(wire::ServerOrder::kApply).apply().version(), i);
  }
  wire::ServerMessage message;
  message.mutable_kept()->set_version(serving->next(wire::ServerOrder::kKeep).keep().version());
  serving->say(message);
  measured.mutable_evaluated()->set_version(
      measuring->next(wire::EvaluatorOrder::kEvaluate).evaluate().version());
  measuring->say(measured);
  message.mutable_written()->set_version(
      serving->next(wire::ServerOrder::kWriteCheckpoint).write_checkpoint().version());
  serving->say(message);
  EXPECT_FALSE(serving->next(wire::ServerOrder::kDisconnect).disconnect().failed());
  EXPECT_FALSE(training->next(wire::WorkerOrder::kDisconnect).disconnect().failed());
  EXPECT_TRUE(serving->ended());
  EXPECT_TRUE(training->ended());
  measuring->leave();
  thread_.join();
  EXPECT_TRUE(coordinator_->attempt().result().ok());
  EXPECT_EQ(coordinator_->attempt().phase(), coordinator::Phase::kOver);
  EXPECT_EQ(counted_, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(evaluated_, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(facts_, 9);
  EXPECT_EQ(orders_, 18) << "8 releases, 8 commits, the replica is parked, the end";
}

TEST_F(CoordinatorTest, AProcessThatEndsIsGone) {
  start("epochs = 100\n");
  const auto training = worker();
  const auto serving = server();
  join(*training, *serving);
  training->next(wire::WorkerOrder::kRelease);
  serving->leave();
  thread_.join();
  EXPECT_TRUE(coordinator_->attempt().can_go_on());
  EXPECT_EQ(coordinator_->attempt().result().message(), "server 0 died");
}

TEST_F(CoordinatorTest, AStopOrACheckpointThatComesBetweenTwoAttemptsIsNotAnsweredWithOk) {
  start("epochs = 100\n");
  const auto training = worker();
  const auto serving = server();
  join(*training, *serving);
  training->next(wire::WorkerOrder::kRelease);
  const auto ask = [&](bool checkpoint) {
    wire::StopRequest request;
    request.set_why("a person");
    request.set_checkpoint(checkpoint);
    wire::StopReply reply;
    grpc::ClientContext context;
    rpc::introduce(context, kAccess);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return rpc::call_once(stub_->Stop(&context), request, reply).error_code();
  };
  EXPECT_EQ(ask(true), grpc::StatusCode::OK);
  // Holds the loop as soon as the attempt is over.
  std::promise<void> over, asked;
  std::function<void()> look = [&] {
    if (!coordinator_->attempt().can_go_on()) return static_cast<void>(loop_.post(look));
    over.set_value();
    asked.get_future().wait();
  };
  loop_.post(look);
  serving->leave();
  over.get_future().wait();
  auto stop = std::async(std::launch::async, ask, false);
  auto checkpoint = std::async(std::launch::async, ask, true);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // both calls reach the loop
  asked.set_value();
  EXPECT_EQ(stop.get(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(checkpoint.get(), grpc::StatusCode::ABORTED);
  thread_.join();
  EXPECT_EQ(ask(false), grpc::StatusCode::ABORTED) << "the loop has ended";
}

TEST_F(CoordinatorTest, AProcessThatSaysNothingThatMakesSenseIsToldOf) {
  start("");
  open<WorkerEnd>([this](auto* context) { return stub_->Work(context); })->leave();
  const auto said = [&] {
    std::promise<bool> found;
    loop_.post([&] { found.set_value(!notices_.empty()); });
    return found.get_future().get();
  };
  while (!said()) std::this_thread::yield();
  EXPECT_THAT(notices_.front(), testing::HasSubstr("it ended without a word that makes sense"));
}

// Messages of another version may mean something else. But a process that only asks about the job, or stops
// it, is heard.
TEST_F(CoordinatorTest, AProcessOfAnotherVersionIsRefused) {
  start("");
  const auto introduce_as = [](grpc::ClientContext& context, const std::string& program) {
    context.AddMetadata("paceline-token", kAccess.token);
    if (!program.empty()) context.AddMetadata("paceline-program", program);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  };
  const auto works = [&](const std::string& program) {
    grpc::ClientContext context;
    introduce_as(context, program);
    const auto stream = stub_->Work(&context);
    stream->WritesDone();
    wire::WorkerOrder order;
    while (stream->Read(&order)) {
    }
    return stream->Finish();
  };
  const grpc::Status older = works("0.0.1 (messages 01234567)");
  EXPECT_EQ(older.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(older.error_message(),
              testing::HasSubstr("it is paceline 0.0.1 (messages 01234567), and the coordinator is "));
  EXPECT_THAT(works("").error_message(), testing::HasSubstr("does not say which version"));
  EXPECT_THAT(works(std::string(5000, 'x')).error_message().size(), testing::Lt(400u));

  grpc::ClientContext context;
  introduce_as(context, "0.0.1 (messages 01234567)");
  wire::StopReply reply;
  EXPECT_TRUE(rpc::call_once(stub_->Stop(&context), wire::StopRequest(), reply).ok());
}

}  // namespace
}  // namespace paceline::coordinator_process
