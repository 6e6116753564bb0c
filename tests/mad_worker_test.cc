// A worker of the job whose machine has gone mad: a real one, with the job's token, whose words are changed,
// left out, said twice or said late on their way to the coordinator. It may be sent away, and the run may go
// back to a checkpoint once. Nothing else may happen.
//
// PACELINE_LIVES=N tries N lives of it, PACELINE_SEED=S other ones.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/port.h"
#include "tests/program.h"
#include "tests/random_message.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// Changes one field of the message, or of a message in it.
void change_one(google::protobuf::Message& message, Rng& rng) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  if (set.empty()) return fill_at_random(message, rng, 1);
  const auto* field = set[rng.below(set.size())];
  const bool inner = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
  if (inner && !field->is_repeated())
    return change_one(*message.GetReflection()->MutableMessage(&message, field), rng);
  const std::unique_ptr<google::protobuf::Message> other(message.New());
  fill_at_random(*other, rng, 2);
  std::vector<const google::protobuf::FieldDescriptor*> rest;
  other->GetReflection()->ListFields(*other, &rest);
  for (const auto* each : rest) {
    if (each != field) other->GetReflection()->ClearField(other.get(), each);
  }
  message.GetReflection()->ClearField(&message, field);
  message.MergeFrom(*other);
}

// Stands between one worker and the coordinator.
class Madness final : public wire::Coordinator::Service {
 public:
  Madness(const std::string& coordinator, rpc::Access access)
      : access_(std::move(access)),
        to_(wire::Coordinator::NewStub(rpc::channel_to(coordinator, access_))),
        port_(rpc::Port::open("127.0.0.1:0", access_, *this, [](const std::string&) {}).value()) {}

  const std::string& address() const { return port_->address(); }
  std::int64_t passed() const { return passed_; }  // words of all lives
  void begin(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    rng_ = Rng(seed);
    // Mostly sane, so that it comes far, or hardly ever.
    often_ = 2 + rng_.below(30);
  }

  grpc::Status Work(grpc::ServerContext*,
                    grpc::ServerReaderWriter<wire::WorkerOrder, wire::WorkerMessage>* worker) override {
    // The worker waits for the answer to its offer of a local socket, which is not taken here.
    worker->SendInitialMetadata();
    grpc::ClientContext context;
    rpc::introduce(context, access_);
    const auto coordinator = to_->Work(&context);
    const std::jthread orders([&] {
      wire::WorkerOrder order;
      while (coordinator->Read(&order)) {
        if (!worker->Write(order)) break;
      }
      context.TryCancel();
    });
    wire::WorkerMessage message;
    while (worker->Read(&message)) {
      for (const auto& said : instead_of(message)) {
        if (!coordinator->Write(said)) break;
      }
    }
    coordinator->WritesDone();
    context.TryCancel();
    return grpc::Status::OK;
  }

 private:
  std::vector<wire::WorkerMessage> instead_of(const wire::WorkerMessage& message) {
    ++passed_;
    const std::lock_guard lock(mutex_);
    std::vector<wire::WorkerMessage> said;
    if (late_) said.push_back(*std::exchange(late_, std::nullopt));
    const bool mad = rng_.below(often_) == 0;
    wire::WorkerMessage changed = message;
    switch (mad ? rng_.below(5) : 5) {
      case 0:  // left out
        return said;
      case 1:  // twice
        said.push_back(message);
        break;
      case 2:  // late
        late_ = message;
        return said;
      case 3:  // nothing that it meant
        changed.Clear();
        fill_at_random(changed, rng_);
        break;
      case 4:
        change_one(changed, rng_);
        break;
      default:
        break;
    }
    said.push_back(changed);
    return said;
  }

  const rpc::Access access_;
  const std::unique_ptr<wire::Coordinator::Stub> to_;
  std::mutex mutex_;
  Rng rng_{0};
  std::uint64_t often_ = 2;
  std::atomic<std::int64_t> passed_ = 0;
  std::optional<wire::WorkerMessage> late_;
  const std::unique_ptr<rpc::Port> port_;  // goes first
};

TEST(MadWorker, CostsNobodyElseAnything) {
  const std::int64_t lives = from_environment("PACELINE_LIVES", 12);
  const std::int64_t first = from_environment("PACELINE_SEED", 1);
  constexpr std::int64_t kOfOneRun = 12;
  for (std::int64_t life = 0; life < lives;) {
    const TempFolder folder;
    const fs::path job = small_job(folder.path(), "epochs = 2000\n");
    write_text(job, read_text(job) + "[sync]\npolicy = \"asp\"\n[[device]]\ncount = 3\npace_ms = 10\n");
    Program train({"train", job.string()});
    ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
    const fs::path run = only_run(folder / "runs");
    const auto log = [&] { return read_text(run / "logs" / "coordinator.log"); };
    const std::string address = reach_of(children(train.pid(), "w0").at(0)).at(1);
    kill(children(train.pid(), "w1").at(0), SIGKILL);
    ASSERT_TRUE(train.until([&] { return log().find("w1 left: its stream ended") != std::string::npos; }));
    Madness madness(address, {std::nullopt, read_text(run / "token").substr(0, 64)});
    // Once it was the reason that a run goes back it is not let in any more.
    const auto shut_out = [&] { return log().find("did not leave the gradient") != std::string::npos; };
    for (std::int64_t i = 0; i < kOfOneRun && life < lives && !shut_out(); ++i, ++life) {
      SCOPED_TRACE(fmt::format("PACELINE_LIVES=1 PACELINE_SEED={}", first + life));
      madness.begin(static_cast<std::uint64_t>(first + life));
      Program worker({"worker", "--name", "w1", "--coordinator", madness.address(), "--token-file",
                      (run / "token").string(), "--job", (run / "job.toml").string(), "--patience", "1",
                      "--first-patience", "20"});
      const std::int64_t before = madness.passed();
      // On a busy machine its first word takes a while.
      ASSERT_TRUE(eventually([&] { return !worker.running() || madness.passed() > before; }, 60))
          << "it waits and says nothing";
      eventually([&] { return !worker.running(); }, 4);
      ASSERT_TRUE(train.running()) << train.errors_so_far();
    }
    EXPECT_GT(madness.passed(), 0) << "no worker said a word";
    expect_goes_on_until_stopped(train, folder / "runs");
    const Ended replayed = tests::run({"replay", run.string()});
    EXPECT_EQ(replayed.status, 0) << replayed.errors;
  }
}

}  // namespace
}  // namespace paceline::tests
