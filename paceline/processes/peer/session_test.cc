// How a session with a coordinator ended, over a real port.
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/listening_socket.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/records/store/files.h"
#include "paceline/transport/security/token.h"

namespace paceline::peer {
namespace {

using ::testing::HasSubstr;
using Messages = grpc::ServerReaderWriter<wire::WorkerOrder, wire::WorkerMessage>;

// A coordinator that takes one message, sends a disconnect if it is to, and is gone.
class Coordinator final : public wire::Coordinator::Service {
 public:
  explicit Coordinator(bool says_why) : says_why_(says_why) {}

  grpc::Status Work(grpc::ServerContext*, Messages* stream) override {
    stream->SendInitialMetadata();  // the answer to the offer of a local socket: it is not taken
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

// The outcome for a worker that sends nothing until the stream is over.
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

TEST(Session, TellsABusyProcessWhyTheRunFailed) {
  EXPECT_THAT(std::string(outcome_for_a_busy_worker(true).message()), HasSubstr("no server"));
}

TEST(Session, ACoordinatorThatSaidNothingIsLost) {
  EXPECT_EQ(outcome_for_a_busy_worker(false), wire::coordinator_lost());
}

// Nothing listens at that port any more.
TEST(Session, WaitsForTheFirstCoordinatorAsLongAsItWasTold) {
  const auto taken = listen_at("127.0.0.1:0");
  ASSERT_TRUE(taken.ok());
  PeerOptions options;
  options.coordinator = taken->address;
  ASSERT_EQ(::shutdown(taken->socket.get(), SHUT_RDWR), 0);
  options.token_file = ::testing::TempDir() + "session-token";
  ASSERT_TRUE(security::replace_token(options.token_file).ok());
  options.patience_s = 0.01;
  options.first_patience_s = 0.2;
  const absl::Status end = with_coordinator(options, security::Role::kWorker,
                                            [](Stub&, const rpc::Access&) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(end.message()), HasSubstr("waited for 0.2 s"));
  EXPECT_EQ(exit_reason_of(end), ExitReason::kCoordinatorLost) << "it is no error of this process";
}

// A job may be stopped while one of its processes still looks for the coordinator.
TEST(Session, StopsWaitingWhenTheCoordinatorsFileIsGone) {
  const auto taken = listen_at("127.0.0.1:0");
  ASSERT_TRUE(taken.ok());
  ASSERT_EQ(::shutdown(taken->socket.get(), SHUT_RDWR), 0);
  const std::string file = ::testing::TempDir() + "session-coordinator";
  ASSERT_TRUE(store::atomic_write(file, taken->address + "\n").ok());
  PeerOptions options;
  options.coordinator = "@" + file;
  options.token_file = ::testing::TempDir() + "session-token";
  ASSERT_TRUE(security::replace_token(options.token_file).ok());
  options.first_patience_s = 600;
  std::thread waits([&] {
    const absl::Status end = with_coordinator(options, security::Role::kWorker,
                                              [](Stub&, const rpc::Access&) { return absl::OkStatus(); });
    EXPECT_THAT(std::string(end.message()), HasSubstr("there is no coordinator to wait for"));
  });
  std::filesystem::remove(file);
  waits.join();
}

}  // namespace
}  // namespace paceline::peer
