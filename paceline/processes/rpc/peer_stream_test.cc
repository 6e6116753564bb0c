// Peers of a real gRPC server, with messages in the stream or over a local socket. Some have the token and misbehave: one
// that never reads, one that sends more than the coordinator takes, and one whose messages make no sense.
#include "paceline/processes/rpc/peer_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/connection.h"

namespace paceline::rpc {
namespace {

using namespace std::chrono_literals;
using Stream = PeerStream<wire::WorkerMessage, wire::WorkerOrder>;

constexpr std::size_t kMegabyte = 1 << 20;
constexpr int kPlaces = 3;

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
  void stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  ~PeerStreams() override {
    stop();
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
    received_before_the_end_ = received_.load();
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
  std::unique_ptr<grpc::ClientReaderWriter<wire::WorkerMessage, wire::WorkerOrder>> open_on(
      grpc::ClientContext* context) {
    return stub_->Work(context);
  }
  std::unique_ptr<Call> open() {
    auto call = std::make_unique<Call>();
    call->stream = open_on(&call->context);
    return call;
  }

  bool all_places_are_free() {
    std::vector<StreamPlaces::Place> places;
    for (int i = 0; i < kPlaces; ++i) places.push_back(service_.places_.take());
    return std::all_of(places.begin(), places.end(), [](const auto& place) { return place != nullptr; });
  }

  std::atomic<int> received_{0}, closed_{0}, received_before_the_end_{0};
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
    StreamPlaces places_{kPlaces};
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

// ---- Over the local socket ----

using Client = Connection<wire::WorkerMessage, wire::WorkerOrder>;

class LocalPeers : public PeerStreams {
 protected:
  std::unique_ptr<Client> connect() {
    return std::make_unique<Client>([this](grpc::ClientContext* context) { return open_on(context); });
  }
  static wire::WorkerOrder order_of(const std::string& text) {
    wire::WorkerOrder order;
    order.mutable_disconnect()->set_why(text);
    return order;
  }
  // A call whose other side has taken the offer; the test has this side's socket.
  struct LocalCall : Call {
    FileDescriptor socket;
  };
  std::unique_ptr<LocalCall> open_locally() {
    auto call = std::make_unique<LocalCall>();
    const auto offer = LocalOffer::make().value();
    call->context.AddMetadata(kLocalOfferKey, offer.text());
    call->stream = open_on(&call->context);
    call->stream->WaitForInitialMetadata();
    EXPECT_EQ(call->context.GetServerInitialMetadata().count(kLocalOfferKey), 1u);
    call->socket = offer.accept().value();
    return call;
  }
  static std::string frame_of(const wire::WorkerMessage& message) {
    std::string frame;
    const std::string bytes = message.SerializeAsString();
    std::copy(bytes.begin(), bytes.end(), Frames::add_to(frame, bytes.size()));
    return frame;
  }
};

TEST_F(LocalPeers, EachSideHearsTheOtherInOrder) {
  constexpr int kOrders = 3000;
  run();
  const auto client = connect();
  ASSERT_TRUE(client->send(message_of(1)));
  ASSERT_TRUE(comes_true([&] { return received_ == 1; }));
  for (int i = 0; i < kOrders; ++i) loop_.post([this, i] { stream_->send(order_of(std::to_string(i))); });
  std::vector<std::jthread> senders;
  for (int thread = 0; thread < 3; ++thread) {
    senders.emplace_back([&] {
      for (int i = 0; i < 500; ++i) EXPECT_TRUE(client->send(message_of(100)));
    });
  }
  for (int i = 0; i < kOrders; ++i) {
    const auto order = client->next();
    ASSERT_TRUE(order.has_value());
    ASSERT_EQ(order->disconnect().why(), std::to_string(i));
  }
  EXPECT_FALSE(client->wait(1ms));
  senders.clear();
  EXPECT_TRUE(comes_true([&] { return received_ == 1501; })) << received_;
}

TEST_F(LocalPeers, AllIsReadBeforeTheEnd) {
  run();
  const auto client = connect();
  client->send(message_of(1));
  ASSERT_TRUE(comes_true([&] { return received_ == 1; }));
  loop_.post([this] {
    for (int i = 0; i < 5; ++i) stream_->send(order_of(std::string(kMegabyte, 'o')));
    stream_->send_disconnect(wire::Disconnect());
  });
  std::this_thread::sleep_for(5ms);  // most of it has to wait for the reader
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client->next()->disconnect().why().size(), kMegabyte);
  EXPECT_TRUE(client->next()->has_disconnect());
  EXPECT_FALSE(client->next().has_value());
  EXPECT_TRUE(client->end().ok());
  EXPECT_TRUE(client->wait(1h));
  EXPECT_TRUE(comes_true([&] { return closed_ == 1; }));
}

// The socket ends a moment before the stream.
TEST_F(LocalPeers, AWaitIsOverOnlyIfSomethingIsThereOrTheStreamHasEnded) {
  run();
  for (int round = 1; round <= 100; ++round) {
    const auto client = connect();
    client->send(message_of(1));
    ASSERT_TRUE(comes_true([&] { return received_ == round; }));
    loop_.post([this] { stream_->send_disconnect(wire::Disconnect()); });
    ASSERT_TRUE(client->next()->has_disconnect());
    ASSERT_TRUE(client->wait(1h)) << round;
    ASSERT_TRUE(comes_true([&] { return closed_ == round; }));
  }
}

TEST_F(LocalPeers, LastMessagesComeBeforeTheEnd) {
  const auto call = open_locally();
  for (int i = 0; i < 3; ++i) send_at_once(call->socket.get(), frame_of(message_of(10)));
  call->context.TryCancel();
  call->stream->Finish();
  // The end of the stream is there before the loop runs.
  ASSERT_TRUE(comes_true([&] { return all_places_are_free(); }));
  std::this_thread::sleep_for(20ms);
  run();
  EXPECT_TRUE(comes_true([&] { return closed_ == 1; }));
  EXPECT_EQ(received_before_the_end_, 3);
}

TEST_F(LocalPeers, OneThatNeverReadsIsDropped) {
  run();
  const auto call = open_locally();
  send_at_once(call->socket.get(), frame_of(message_of(1)));
  ASSERT_TRUE(comes_true([&] { return received_ == 1; }));
  for (int i = 0; i < 200; ++i)
    loop_.post([this] {
      if (stream_ != nullptr) stream_->send(order_of(std::string(kMegabyte, 'o')));
    });
  EXPECT_TRUE(comes_true([&] { return closed_ == 1; })) << "it may leave anything unread";
  EXPECT_EQ(call->stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(LocalPeers, AMessageThatMakesNoSenseEndsTheStream) {
  run();
  for (const std::string& bytes : {std::string("\x02\0\0\0\xff\xff", 6), std::string(8, '\xff')}) {
    const int closed = closed_;
    const auto call = open_locally();
    send_at_once(call->socket.get(), frame_of(message_of(1)) + bytes + frame_of(message_of(1)));
    EXPECT_TRUE(comes_true([&] { return closed_ == closed + 1; }));
    EXPECT_EQ(received_, closed_) << "a message behind it counts";
    call->stream->Finish();
  }
}

TEST_F(LocalPeers, OneWhoseSocketClosesIsGone) {
  run();
  const auto call = open_locally();
  send_at_once(call->socket.get(), frame_of(message_of(1)));
  call->socket = FileDescriptor();
  EXPECT_TRUE(comes_true([&] { return closed_ == 1; }));
  EXPECT_EQ(received_, 1);
  call->stream->Finish();
}

TEST_F(LocalPeers, AThreadThatWaitsToSendEndsWithTheStream) {
  const auto client = connect();
  std::atomic<int> sent{0};
  std::jthread sender([&] {
    while (client->send(message_of(kMegabyte))) ++sent;
  });
  int before = -1;
  while (std::exchange(before, sent) != sent) std::this_thread::sleep_for(100ms);
  EXPECT_LT(sent, 20) << "the loop takes nothing";
  std::jthread waiter([&] { EXPECT_FALSE(client->next().has_value()); });
  stop();
  sender.join();
  waiter.join();
}

TEST_F(LocalPeers, AMessageThatIsTooLongIsNotSent) {
  run();
  const auto client = connect();
  EXPECT_TRUE(client->send(message_of(kLongestFrame - 1000)));
  EXPECT_TRUE(comes_true([&] { return received_ == 1; }));
  loop_.post([this] { stream_->send(order_of(std::string(kLongestFrame + 1, 'o'))); });
  EXPECT_FALSE(client->next().has_value());
}

TEST_F(LocalPeers, AMessageThatIsTooLongToSendEndsTheStream) {
  run();
  const auto client = connect();
  EXPECT_FALSE(client->send(message_of(kLongestFrame + 1)));
  EXPECT_FALSE(client->end().ok());
  EXPECT_EQ(received_, 0);
}

TEST_F(LocalPeers, AnOfferThatLeadsNowhereLeavesTheMessagesInTheStream) {
  run();
  Call call;
  call.context.AddMetadata(kLocalOfferKey, "@paceline-nobody " + std::string(32, 'a'));
  call.stream = open_on(&call.context);
  call.stream->WaitForInitialMetadata();
  EXPECT_EQ(call.context.GetServerInitialMetadata().count(kLocalOfferKey), 0u);
  call.stream->Write(message_of(1));
  EXPECT_TRUE(comes_true([&] { return received_ == 1; }));
  loop_.post([this] { stream_->send(order_of("here")); });
  wire::WorkerOrder order;
  EXPECT_TRUE(call.stream->Read(&order));
  call.context.TryCancel();
}

}  // namespace
}  // namespace paceline::rpc
