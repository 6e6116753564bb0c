// The port of a job, which another process may still have.
#include "paceline/processes/rpc/port.h"

#include <chrono>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/listening_socket.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/connection.h"

namespace paceline::rpc {
namespace {

using testing::HasSubstr;

TEST(PortOfAJob, IsWaitedForIfItBecomesFree) {
  std::optional<ListeningSocket> before = listen_at("127.0.0.1:0").value();
  const std::string address = before->address;
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    before.reset();
  });
  EXPECT_EQ(listen_for_job(address).value().address, address);
  ends.join();
}

TEST(PortOfAJob, IsRefusedIfItStaysTaken) {
  const ListeningSocket taken = listen_at("127.0.0.1:0").value();
  EXPECT_THAT(std::string(listen_for_job(taken.address).status().message()),
              HasSubstr("Address already in use; the port is taken"));
}

// Takes messages of workers, and says how long the first one is.
class LengthService final : public wire::Coordinator::Service {
 public:
  grpc::Status Work(grpc::ServerContext*,
                    grpc::ServerReaderWriter<wire::WorkerOrder, wire::WorkerMessage>* stream) override {
    wire::WorkerMessage message;
    wire::WorkerOrder order;
    order.mutable_disconnect()->set_why(stream->Read(&message) ? message.hello().name() : "nothing came");
    stream->Write(order);
    return grpc::Status::OK;
  }
};

// A model may have many tensors, whose names go both ways.
TEST(Port, TakesAndGivesMessagesThatAreLongerThanGrpcsOwnLimit) {
  LengthService service;
  const Access access{std::nullopt, "a token"};
  const auto port = Port::open("127.0.0.1:0", access, service, [](const auto&) {}).value();
  const auto stub = wire::Coordinator::NewStub(channel_to(port->address(), access));
  grpc::ClientContext context;
  const auto stream = stub->Work(&context);
  wire::WorkerMessage message;
  message.mutable_hello()->set_name(std::string(8 << 20, 'w'));
  ASSERT_TRUE(stream->Write(message));
  wire::WorkerOrder order;
  ASSERT_TRUE(stream->Read(&order)) << stream->Finish().error_message();
  EXPECT_EQ(order.disconnect().why(), message.hello().name());
  EXPECT_FALSE(stream->Read(&order));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace paceline::rpc
