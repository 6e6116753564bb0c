// How a session with a coordinator ended, over a real port.
#include <chrono>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "paceline/peer/peer.h"
#include "paceline/wire/disconnect.h"
#include "paceline/wire/paceline.grpc.pb.h"

namespace paceline::peer {
namespace {

using ::testing::HasSubstr;
using Messages = grpc::ServerReaderWriter<wire::WorkerOrder, wire::WorkerMessage>;

// Hears one message, says what it is to say, and is gone.
class Coordinator final : public wire::Coordinator::Service {
 public:
  explicit Coordinator(bool says_why) : says_why_(says_why) {}

  grpc::Status Work(grpc::ServerContext*, Messages* stream) override {
    wire::WorkerMessage message;
    stream->Read(&message);
    wire::WorkerOrder order;
    order.mutable_disconnect()->set_failed(true);
    order.mutable_disconnect()->set_why("no server");
    if (says_why_) stream->Write(order);
    return grpc::Status::OK;
  }

 private:
  const bool says_why_;
};

// What a worker makes of it that has nothing to say until the stream is over.
absl::Status outcome_for_a_busy_worker(bool says_why) {
  Coordinator coordinator(says_why);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&coordinator);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = wire::Coordinator::NewStub(
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials()));
  WorkerConnection connection([&](grpc::ClientContext* context) { return stub->Work(context); });
  EXPECT_TRUE(connection.send({}));
  connection.end();
  EXPECT_FALSE(connection.send({}));
  return unless_over(connection, wire::coordinator_lost());
}

TEST(Session, WhoWasBusyHearsWhyTheRunFailed) {
  EXPECT_THAT(std::string(outcome_for_a_busy_worker(true).message()), HasSubstr("no server"));
}

TEST(Session, ACoordinatorThatSaidNothingIsLost) {
  EXPECT_EQ(outcome_for_a_busy_worker(false), wire::coordinator_lost());
}

}  // namespace
}  // namespace paceline::peer
