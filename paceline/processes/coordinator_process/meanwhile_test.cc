// Processes that come while a coordinator reads its checkpoint.
#include "paceline/processes/coordinator_process/meanwhile.h"

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/processes/rpc/single_call.h"

namespace paceline::coordinator_process {
namespace {

using namespace std::chrono_literals;

const rpc::Access kReadersAccess{std::nullopt, "a token"};

CoordinatorServer::Options says(const std::string& phase) {
  return {.access = kReadersAccess,
          .status = [phase](const auto&, wire::StatusReply& reply) { reply.set_phase(phase); },
          .notice = [](const std::string& line) { ADD_FAILURE() << line; }};
}

// A call's context, with a limit for a test that fails.
std::unique_ptr<grpc::ClientContext> introduced() {
  auto context = std::make_unique<grpc::ClientContext>();
  rpc::introduce(*context, kReadersAccess);
  context->set_deadline(std::chrono::system_clock::now() + 60s);
  return context;
}

TEST(Meanwhile, OthersHearThatThereIsALeaderAndWaitInTheirStreams) {
  const ListeningSocket listening = rpc::listen_for_job("127.0.0.1:0").value();
  std::promise<void> read;
  std::atomic<bool> told = false, is_read = false;
  std::jthread coordinator([&] {
    answer_meanwhile(
        listening, says("reads"), 0ms, [&] { told = true; },
        [held_up = read.get_future().share()] { held_up.wait(); });
  });
  const auto stub = wire::Coordinator::NewStub(rpc::channel_to(listening.address, kReadersAccess, 60s));
  auto streaming = introduced();
  const auto stream = stub->Work(streaming.get());
  auto ended_after = std::async(std::launch::async, [&] {
    wire::WorkerOrder order;
    EXPECT_FALSE(stream->Read(&order));
    EXPECT_FALSE(stream->Finish().ok());
    return is_read.load();
  });
  const auto asking = introduced();
  wire::StatusReply status;
  EXPECT_TRUE(rpc::call_once(stub->Status(asking.get()), wire::StatusRequest(), status).ok());
  EXPECT_EQ(status.phase(), "reads");
  EXPECT_TRUE(told);
  const auto stopping = introduced();
  wire::StopReply stopped;
  EXPECT_EQ(rpc::call_once(stub->Stop(stopping.get()), wire::StopRequest(), stopped).error_code(),
            grpc::StatusCode::ABORTED);
  const auto evaluating = introduced();
  wire::EvaluateNowReply evaluated;
  EXPECT_EQ(
      rpc::call_once(stub->EvaluateNow(evaluating.get()), wire::EvaluateNowRequest(), evaluated).error_code(),
      grpc::StatusCode::UNAVAILABLE);
  is_read = true;
  read.set_value();
  coordinator.join();
  EXPECT_TRUE(ended_after.get()) << "it did not wait";
}

TEST(Meanwhile, WorkThatIsSoonDoneIsNotTold) {
  const ListeningSocket listening = rpc::listen_for_job("127.0.0.1:0").value();
  bool done = false;
  answer_meanwhile(
      listening, says("reads"), std::chrono::minutes(10), [] { ADD_FAILURE(); }, [&] { done = true; });
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace paceline::coordinator_process
