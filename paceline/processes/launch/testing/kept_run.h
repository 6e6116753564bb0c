// For tests: a run that one host leads and another one keeps, over a real port.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/formats/wire/status.h"
#include "paceline/processes/coordinator_process/file_calls.h"
#include "paceline/processes/coordinator_process/run_keeping.h"
#include "paceline/processes/launch/run_keeper.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::launch {

inline constexpr char kRun[] = "small-run";
inline const rpc::Access kKeeperAccess{std::nullopt, "a token"};

// True once `come` is true; tried for 10 s.
inline bool soon(const std::function<bool()>& come) {
  for (int i = 0; i < 1000 && !come(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return come();
}

class NoCheckpoints final : public store::CheckpointSink {
 public:
  absl::StatusOr<std::string> begin(Version) override { return absl::UnimplementedError(""); }
  absl::Status finish(const control::ControllerState&, Duration) override { return absl::OkStatus(); }
  void give_up() override {}
};

// The leading host's port. The test gives the answers.
class KeptRunService final : public wire::Coordinator::CallbackService {
 public:
  std::function<absl::Status(coordinator_process::RunKeeping::Call&)> keep;
  std::function<absl::Status(coordinator_process::FileCalls::Call&)> file;

  grpc::ServerBidiReactor<wire::KeeperMessage, wire::KeepOrder>* Keep(
      grpc::CallbackServerContext* context) override {
    return coordinator_process::RunKeeping::Call::start(
        *context, places_.take(), [this](auto& call) { return wire::to_grpc(keep(call)); });
  }
  grpc::ServerBidiReactor<wire::FileMessage, wire::FileMessage>* File(
      grpc::CallbackServerContext* context) override {
    return coordinator_process::FileCalls::Call::start(
        *context, places_.take(), [this](auto& call) { return wire::to_grpc(file(call)); });
  }

 private:
  rpc::StreamPlaces places_{100};
};

// A keeper whose messages the test sends.
struct SpokenKeeper {
  explicit SpokenKeeper(const std::string& leader)
      : stub(wire::Coordinator::NewStub(rpc::channel_to(leader, kKeeperAccess))) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream = stub->Keep(&context);
  }
  void say(const wire::KeeperMessage& message) const { stream->Write(message); }
  void say_hello() const {
    wire::KeeperMessage hello;
    hello.mutable_keep()->set_host(1);
    hello.mutable_keep()->set_address("10.0.0.9:7461");
    say(hello);
  }
  void expect_hung_up_on() const {
    wire::KeepOrder order;
    while (stream->Read(&order)) {
    }
    EXPECT_NE(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << "it was not hung up on";
  }

  std::unique_ptr<wire::Coordinator::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<wire::KeeperMessage, wire::KeepOrder>> stream;
};

// A run on host 0; host 1 may keep it.
class KeptRun : public ::testing::Test {
 protected:
  KeptRun() {
    for (const std::filesystem::path& folder : {run_.checkpoints(), kept().root.parent_path()})
      std::filesystem::create_directories(folder);
    for (const auto& [file, text] : {std::pair(run_.job(), "the job"),
                                     {run_.asked(), "as host 0 was asked"},
                                     {run_.root / "origin.json", "{}"},
                                     {run_.leader(), "0 10.0.0.1:7461\n"}})
      EXPECT_TRUE(store::atomic_write(file, text).ok());
    journal_ = *store::Journal::open(run_.journal(), Version(0), store::PowerLoss::kNothing, true);
    service_.keep = [this](auto& call) { return keeping_.serve(call); };
    service_.file = [this](auto& call) { return files_.serve(call); };
    open();
  }
  ~KeptRun() override { port_.reset(); }

  void open() {
    port_ = *rpc::Port::open("127.0.0.1:0", kKeeperAccess, service_, [](const auto&) {});
  }
  store::RunPaths kept() const { return {directory_ / "disk1" / kRun}; }
  std::unique_ptr<RunKeeper> keeper() {
    auto made = std::make_unique<RunKeeper>(RunKeeper::Options{.host = HostRank(1),
                                                               .address = "10.0.0.2:7461",
                                                               .runs_dir = directory_ / "disk1",
                                                               .asked = "as host 1 was asked"});
    made->keep(port_->address(), kKeeperAccess);
    return made;
  }
  absl::Status set(const std::string& value) {
    PACELINE_RETURN_IF_ERROR(journal_->set("key", value));
    return keeping_.flush();
  }
  static std::string value_in(const std::filesystem::path& journal) {
    const auto reader = store::JournalReader::open(journal);
    return reader.ok() ? reader->run()->at("key") : std::string(reader.status().message());
  }

  // Makes a checkpoint of that version that counts; the leader has its files for anybody who asks.
  std::string make_checkpoint(const std::string& name) {
    const std::filesystem::path folder = run_.checkpoints() / name;
    std::filesystem::create_directory(folder);
    EXPECT_TRUE(store::atomic_write(folder / kWeights, name + " weights").ok());
    EXPECT_TRUE(store::atomic_write(folder / "state.json", "as it was then").ok());
    // The leader serves it as the checkpoint that the attempt goes on from.
    coordinator::Restart restart;
    restart.checkpoint_dir = folder.string();
    given_ = std::make_unique<coordinator_process::FileCalls>(run_.root, restart, 1, none_);
    service_.file = [&](auto& call) { return given_->serve(call); };
    return folder.string();
  }
  coordinator_process::RunKeeping::Options options() {
    return {.run = run_,
            .keeper = HostRank(1),
            .flush = [this] { return journal_->flush(); },
            .take_log = [this] { return journal_->take_log(); },
            .news = [this](const std::string& line) { news_.push_back(line); },
            .patience = std::chrono::seconds(30),
            .first_patience = std::chrono::seconds(30),
            .copy_patience = std::chrono::seconds(30)};
  }

  static constexpr char kWeights[] = "weights-1-of-1.safetensors";
  const store::TestDirectory directory_;
  const store::RunPaths run_{directory_ / "disk0" / kRun};
  std::unique_ptr<store::Journal> journal_;
  std::vector<std::string> news_;
  coordinator_process::RunKeeping keeping_{options()};
  NoCheckpoints none_;
  coordinator_process::FileCalls files_{
      run_.root, std::nullopt, 1, none_,
      [this](const auto& dir, const auto& names) { keeping_.counted(dir, names); }};
  std::unique_ptr<coordinator_process::FileCalls> given_;  // made by make_checkpoint()
  KeptRunService service_;
  std::unique_ptr<rpc::Port> port_;
};

}  // namespace paceline::launch
