// A coordinator on its port, with peers that are no more than their streams, so that they can say anything at
// any moment: what is out of turn ends the run or sends its sender away, and never harms the coordinator.
#include "paceline/rpc/coordinator.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/rpc/access.h"
#include "paceline/rpc/coordinator_server.h"
#include "paceline/rpc/paceline.grpc.pb.h"
#include "paceline/rpc/wire.h"

namespace paceline::rpc {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSamples = 64;
const Access kAccess{std::nullopt, "a token"};

// One end of a stream, which says what it likes.
template <class Out, class In>
class FakePeer {
 public:
  explicit FakePeer(const auto& open) : stream_(open(&context_)) {}
  ~FakePeer() { context_.TryCancel(); }

  void say(const Out& message) { stream_->Write(message); }
  // The next order of that kind; an empty one when the stream has ended.
  In next(typename In::WhatCase what) {
    In order;
    while (stream_->Read(&order)) {
      if (order.what_case() == what) return order;
    }
    return {};
  }
  wire::Goodbye goodbye() { return next(In::kGoodbye).goodbye(); }
  // Nothing more is said.
  void leave() {
    context_.TryCancel();
    In order;
    while (stream_->Read(&order)) {
    }
    stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Out, In>> stream_;
};

using FakeServer = FakePeer<wire::ServerMessage, wire::ServerOrder>;
using FakeWorker = FakePeer<wire::WorkerMessage, wire::WorkerOrder>;
using FakeEvaluator = FakePeer<wire::EvaluatorMessage, wire::EvaluatorOrder>;

wire::ServerMessage started(const std::vector<std::string>& paths = {"board"}) {
  wire::ServerMessage message;
  message.mutable_started();
  for (const std::string& path : paths) message.mutable_started()->add_board_paths(path);
  return message;
}

wire::ServerMessage applied(std::int64_t version) {
  wire::ServerMessage message;
  message.mutable_applied()->set_version(version);
  return message;
}

class CoordinatorTest : public testing::Test, public CheckpointSink {
 protected:
  absl::StatusOr<std::string> begin(Version) override { return "dir"; }
  absl::Status finish(const control::ControllerState&, Duration) override { return absl::OkStatus(); }

  ~CoordinatorTest() override {
    loop_.post([this] { loop_.stop(); });
    if (thread_.joinable()) thread_.join();
    port_.reset();
  }

  // One server, unless `more` says otherwise.
  void start(const std::string& more, CoordinatorOptions options = {}) {
    options.job_toml = fmt::format("name = \"small\"\nbatch = 8\nepochs = 2\n{}", more);
    options.job = config::parse_job(options.job_toml, "job.toml").value();
    options.checkpoints = this;
    options.on_data_known = [](const auto&) {};
    options.notice = [](const std::string&) {};
    options.news = [](const std::string&) {};
    coordinator_.emplace(loop_, std::move(options));
    port_ = CoordinatorServer::start("127.0.0.1:0", loop_, *coordinator_,
                                     {.access = kAccess, .status = {}, .notice = [](const auto&) {}})
                .value();
    stub_ = wire::Coordinator::NewStub(channel_to(port_->address(), kAccess));
    thread_ =
        std::jthread([this] { loop_.run(std::chrono::milliseconds(10), [&] { coordinator_->tick(); }); });
  }

  template <class Peer>
  std::unique_ptr<Peer> open(auto call) {
    return std::make_unique<Peer>([&](grpc::ClientContext* context) {
      show_token(*context, kAccess);
      context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      return call(context);
    });
  }
  std::unique_ptr<FakeServer> server(int shard) {
    auto made = open<FakeServer>([this](auto* context) { return stub_->Serve(context); });
    wire::ServerMessage hello;
    hello.mutable_hello()->set_shard(shard);
    made->say(hello);
    return made;
  }
  std::unique_ptr<FakeWorker> worker(const std::string& name) {
    auto made = open<FakeWorker>([this](auto* context) { return stub_->Work(context); });
    wire::WorkerMessage hello;
    hello.mutable_hello()->set_name(name);
    made->say(hello);
    return made;
  }
  std::unique_ptr<FakeEvaluator> evaluator() {
    auto made = open<FakeEvaluator>([this](auto* context) { return stub_->Evaluate(context); });
    wire::EvaluatorMessage hello;
    hello.mutable_hello();
    made->say(hello);
    return made;
  }
  static wire::WorkerMessage attached(const std::string& path) {
    ps::Layout layout;
    layout.add("w", ps::TensorKind::kParameter, {8});
    wire::WorkerMessage message;
    message.mutable_attached()->set_dataset_size(kSamples);
    *message.mutable_attached()->mutable_layout() = to_wire(layout);
    message.mutable_attached()->set_gradient_path(path);
    return message;
  }

  // On the loop's thread.
  template <class Ask>
  auto ask(Ask ask) {
    std::packaged_task<decltype(ask())()> task(std::move(ask));
    loop_.post([&] { task(); });
    return task.get_future().get();
  }

  EventLoop loop_;
  std::optional<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorServer> port_;
  std::unique_ptr<wire::Coordinator::Stub> stub_;
  std::jthread thread_;
};

class VersionOutOfTurn : public CoordinatorTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(VersionOutOfTurn, EndsTheRun) {
  start("");
  const auto lying = server(0);
  lying->say(applied(GetParam()));
  EXPECT_THAT(lying->goodbye().why(), HasSubstr(fmt::format("server 0 made version {}", GetParam())));
}

TEST_P(VersionOutOfTurn, EndsTheRunAfterTheStartAsWell) {
  start("");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto lying = server(0);
  lying->next(wire::ServerOrder::kStart);
  lying->say(started());
  lying->say(applied(GetParam()));
  EXPECT_THAT(lying->goodbye().why(), HasSubstr(fmt::format("server 0 made version {}", GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Versions, VersionOutOfTurn, testing::Values(1, INT64_MAX, 0, -1));

TEST_F(CoordinatorTest, AServerStartsOnceWhenItIsTold) {
  start("");
  const auto measuring = evaluator();
  measuring->next(wire::EvaluatorOrder::kWelcome);
  const auto lying = server(0);
  lying->say(started());
  EXPECT_EQ(lying->goodbye().why(), "server 0 started out of turn");
}

TEST_F(CoordinatorTest, AServerHasOnePlace) {
  start("[cluster]\nservers = 2\n");
  const auto lying = server(0);
  wire::ServerMessage hello;
  hello.mutable_hello()->set_shard(1);
  lying->say(hello);
  EXPECT_EQ(lying->goodbye().why(), "server 0 said hello twice");
}

}  // namespace
}  // namespace paceline::rpc
