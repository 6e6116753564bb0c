// Peers of a real gRPC server that have the token and misbehave: one that never reads, and one that sends
// more than the coordinator takes.
#include "paceline/processes/rpc/peer_stream.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"

namespace paceline::rpc {
namespace {

using namespace std::chrono_literals;
using Stream = PeerStream<wire::WorkerMessage, wire::WorkerOrder>;

constexpr std::size_t kMegabyte = 1 << 20;

bool comes_true(const auto& done) {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
  return done();
}

// A service of streams whose loop runs when the test says so.
class PeerStreams : public ::testing::Test, public Stream::Listener {
 protected:
  PeerStreams() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = wire::Coordinator::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials()));
  }
  ~PeerStreams() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    if (!thread_.joinable()) run();
    loop_.post([this] { loop_.stop(); });
  }

  void run() {
    thread_ = std::jthread([this] { loop_.run(1s, [] {}); });
  }

  void received(const Stream::Pointer& stream, wire::WorkerMessage message) override {
    stream_ = stream;
    bytes_received_ += message.ByteSizeLong();
    ++received_;
  }
  void closed(const Stream::Pointer& stream) override {
    if (stream_ == stream) stream_ = nullptr;
    ++closed_;
  }

  static wire::WorkerMessage message_of(std::size_t bytes) {
    wire::WorkerMessage message;
    message.mutable_hello()->set_name(std::string(bytes, 'w'));
    return message;
  }

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<wire::WorkerMessage, wire::WorkerOrder>> stream;
  };
  std::unique_ptr<Call> open() {
    auto call = std::make_unique<Call>();
    call->stream = stub_->Work(&call->context);
    return call;
  }

  std::atomic<int> received_{0}, closed_{0};
  std::atomic<std::size_t> bytes_received_{0};
  EventLoop loop_;
  Stream::Pointer stream_;  // used by the loop's thread

 private:
  struct Service final : wire::Coordinator::CallbackService {
    explicit Service(PeerStreams& test) : test_(test) {}
    grpc::ServerBidiReactor<wire::WorkerMessage, wire::WorkerOrder>* Work(
        grpc::CallbackServerContext* context) override {
      return start_stream<Stream, wire::WorkerMessage, wire::WorkerOrder>(test_.loop_, test_, *context,
                                                                          places_);
    }
    PeerStreams& test_;
    StreamPlaces places_{3};
  };

  Service service_{*this};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<wire::Coordinator::Stub> stub_;
  std::jthread thread_;
};

TEST_F(PeerStreams, DropsAPeerThatNeverReads) {
  run();
  const auto call = open();
  call->stream->Write(message_of(1));
  ASSERT_TRUE(comes_true([&] { return received_ == 1; }));
  wire::WorkerOrder order;
  order.mutable_disconnect()->set_why(std::string(kMegabyte, 'o'));
  for (int i = 0; i < 200; ++i)
    loop_.post([this, order] {
      if (stream_ != nullptr) stream_->send(order);
    });
  EXPECT_TRUE(comes_true([&] { return closed_ == 1; })) << "it may leave anything unread";
  while (call->stream->Read(&order)) {
  }
  EXPECT_EQ(call->stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(PeerStreams, BoundsUntakenMessagesAndReadsThemInTheEnd) {
  constexpr int kMessages = 60;
  const auto call = open();
  std::atomic<int> written{0};
  std::jthread writer([&] {
    while (written < kMessages && call->stream->Write(message_of(3 * kMegabyte))) ++written;
    call->stream->WritesDone();
  });
  // Waits until no more bytes leave: the loop stands still, and both ends' windows are full.
  int before = -1;
  while (std::exchange(before, written) != written || written == 0) std::this_thread::sleep_for(300ms);
  EXPECT_LT(written, 20) << "of 3 MB each";
  run();
  EXPECT_TRUE(comes_true([&] { return received_ == kMessages; })) << received_ << " of " << written;
  EXPECT_GE(bytes_received_, kMessages * 3 * kMegabyte);
}

TEST_F(PeerStreams, ThereAreSoManyPlaces) {
  run();
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(open());
    calls.back()->stream->Write(message_of(1));
  }
  ASSERT_TRUE(comes_true([&] { return received_ == 3; }));
  wire::WorkerOrder order;
  const auto one_more = open();
  EXPECT_FALSE(one_more->stream->Read(&order));
  EXPECT_EQ(one_more->stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  calls.front()->stream->WritesDone();
  EXPECT_EQ(calls.front()->stream->Finish().error_code(), grpc::StatusCode::OK);
  // The place is free soon: a call hears how it ended a moment earlier.
  EXPECT_TRUE(comes_true([&] {
    if (received_ == 4) return true;
    calls.push_back(open());
    calls.back()->stream->Write(message_of(1));
    return false;
  })) << "its place is free again";
  for (const auto& call : calls) call->context.TryCancel();
}

}  // namespace
}  // namespace paceline::rpc
