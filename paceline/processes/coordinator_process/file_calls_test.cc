// Checkpoints of hosts that do not see the run folder, over a real port: a server's end (CalledFiles) and the
// coordinator's, and callers that ask for files they may not have or break off.
#include "paceline/processes/coordinator_process/file_calls.h"

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/formats/wire/status.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/peer/called_files.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::coordinator_process {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kShards = 2;
const rpc::Access kOwnAccess{std::nullopt, "a token"};

// A sink that writes one checkpoint after the other into the same folder.
class OneFolder final : public store::CheckpointSink {
 public:
  explicit OneFolder(fs::path folder) : folder_(std::move(folder)) {}
  absl::StatusOr<std::string> begin(Version) override { return folder_.string(); }
  absl::Status finish(const control::ControllerState&, Duration) override { return absl::OkStatus(); }
  void give_up() override {}

 private:
  const fs::path folder_;
};

class Service final : public wire::Coordinator::CallbackService {
 public:
  explicit Service(const FileCalls& files) : files_(files) {}
  grpc::ServerBidiReactor<wire::FileMessage, wire::FileMessage>* File(
      grpc::CallbackServerContext* context) override {
    return FileCalls::Call::start(*context, places_.take(),
                                  [this](auto& call) { return wire::to_grpc(files_.serve(call)); });
  }

 private:
  const FileCalls& files_;
  rpc::StreamPlaces places_{100};
};

class FileCallsTest : public ::testing::Test {
 protected:
  FileCallsTest() {
    fs::create_directory(folder());
    // There is no padding, and the second tensor takes more than one message.
    layout_.add("a", ps::TensorKind::kParameter, {3, 16});
    layout_.add("b", ps::TensorKind::kParameter, {700'000});
    weights_.resize(static_cast<std::size_t>(layout_.size()));
    std::iota(weights_.begin(), weights_.end(), 1.0F);
  }

  fs::path folder() const { return directory_.path() / "v1"; }
  peer::CalledFiles called(std::vector<std::string> names = {}, std::stop_token stop = {}) {
    return {*stub_, kOwnAccess, folder().string(), std::move(names), std::move(stop)};
  }
  absl::Status write(int index) {
    auto files = called();
    return store::write_shard(files, index, kShards, layout_, weights_, {{weights_}, 0.5});
  }
  std::size_t files_there() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder()), fs::directory_iterator()));
  }
  // Begins an attempt that goes on from the checkpoint in the folder.
  void restart() {
    port_.reset();
    coordinator::Restart restart;
    restart.checkpoint_dir = folder().string();
    restart.files = *store::FolderFiles(folder()).names();
    calls_ = std::make_unique<FileCalls>(directory_.path(), restart, kShards, sink_);
    open();
  }
  void open() {
    service_ = std::make_unique<Service>(*calls_);
    port_ = *rpc::Port::open("127.0.0.1:0", kOwnAccess, *service_, [](const auto&) {});
    stub_ = wire::Coordinator::NewStub(rpc::channel_to(port_->address(), kOwnAccess));
  }

  store::TestDirectory directory_;
  OneFolder sink_{folder()};
  ps::Layout layout_;
  std::vector<float> weights_;
  std::unique_ptr<FileCalls> calls_ =
      std::make_unique<FileCalls>(directory_.path(), std::nullopt, kShards, sink_);
  std::unique_ptr<Service> service_;
  std::unique_ptr<rpc::Port> port_;
  std::unique_ptr<wire::Coordinator::Stub> stub_;
};

TEST_F(FileCallsTest, ServesTheFilesThatWereSent) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  for (const int index : {1, 2}) ASSERT_TRUE(write(index).ok()) << write(index);
  // The bytes that a server on this host would have written.
  const fs::path here = directory_.path() / "here";
  fs::create_directory(here);
  ASSERT_TRUE(store::write_shard(here, 1, kShards, layout_, weights_, {{weights_}, 0.5}).ok());
  for (const std::string& name : {store::weights_name(1, kShards), store::optimizer_name(1, kShards)})
    EXPECT_EQ(*store::read_file(folder() / name, 1 << 24), *store::read_file(here / name, 1 << 24));
  restart();
  auto files = called({store::weights_name(2, kShards), store::optimizer_name(2, kShards)});
  const auto shard = store::load_shard(files, 2, kShards, layout_);
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->weights, weights_);
  EXPECT_EQ(shard->optimizer.streams.at(0), weights_);
  EXPECT_EQ(shard->optimizer.fractions, 0.5);
}

// The checkpoint was written by another number of hosts.
TEST_F(FileCallsTest, PartsAreGatheredFromAllFiles) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  const std::vector<ps::Layout> parts = layout_.split(kShards);
  for (const int index : {1, 2}) {
    const ps::Layout& part = parts.at(static_cast<std::size_t>(index - 1));
    auto files = called();
    const std::vector<float> values(static_cast<std::size_t>(part.size()), static_cast<float>(index));
    ASSERT_TRUE(store::write_shard(files, index, kShards, part, values, {{values}, 0}).ok());
  }
  restart();
  auto files = called(*store::FolderFiles(folder()).names());
  const auto whole = store::load_shard(files, 1, 1, layout_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->weights[0], 1);
  EXPECT_EQ(whole->weights[static_cast<std::size_t>(layout_.tensors()[1].offset)], 2);
}

TEST_F(FileCallsTest, NothingIsWrittenBesideTheCheckpointUnderWay) {
  open();
  EXPECT_THAT(write(1).ToString(), HasSubstr("no checkpoint under way")) << "none is";
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  EXPECT_FALSE(write(3).ok()) << "there are two shards";
  for (const auto& [dir, name] : {std::pair(directory_.path().string(), store::weights_name(1, kShards)),
                                  {folder().string(), "state.json"},
                                  {folder().string(), "../" + store::weights_name(1, kShards)},
                                  {folder().string() + "/..", store::weights_name(1, kShards)}}) {
    peer::CalledFiles files(*stub_, kOwnAccess, dir, {}, {});
    auto file = files.create(name);
    EXPECT_FALSE(file.ok() && (*file)->write("x", 1).ok() && (*file)->commit().ok()) << dir << " " << name;
  }
  calls_->give_up();
  EXPECT_FALSE(write(1).ok());
  EXPECT_EQ(files_there(), 0u);
}

TEST_F(FileCallsTest, NothingElseIsRead) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  ASSERT_TRUE(write(1).ok());
  ASSERT_TRUE(store::atomic_write(directory_.path() / "token", "secret").ok());
  restart();
  for (const std::string& name :
       {std::string("../token"), std::string("state.json"), store::weights_name(2, kShards)}) {
    auto files = called({name});
    EXPECT_FALSE(files.to_read(name).ok()) << name;
  }
  peer::CalledFiles elsewhere(*stub_, kOwnAccess, directory_.path().string(), {"token"}, {});
  EXPECT_FALSE(elsewhere.to_read("token").ok());
}

// A file that does not come to its end, or not as it was sent, is not kept.
TEST_F(FileCallsTest, HalfAFileIsNone) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  {
    auto files = called();
    auto file = *files.create(store::weights_name(1, kShards));
    ASSERT_TRUE(file->write(weights_.data(), weights_.size() * sizeof(float)).ok());
  }
  grpc::ClientContext context;
  rpc::introduce(context, kOwnAccess);
  const auto stream = stub_->File(&context);
  wire::FileMessage message;
  message.mutable_put()->set_dir(folder().string());
  message.mutable_put()->set_name(store::weights_name(1, kShards));
  stream->Write(message);
  message.set_piece("bytes");
  stream->Write(message);
  message.set_whole(1234);
  stream->Write(message);
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("did not come as it was sent"));
  port_.reset();  // waits for the calls
  EXPECT_EQ(files_there(), 0u);
}

// The other side stands still; a server whose session is over does not wait for it.
TEST_F(FileCallsTest, AStopEndsACallUnderWay) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  std::stop_source stop;
  auto files = called({}, stop.get_token());
  auto file = *files.create(store::weights_name(1, kShards));
  ASSERT_TRUE(file->write("bytes", 5).ok());
  stop.request_stop();
  EXPECT_FALSE(file->commit().ok());
}

TEST_F(FileCallsTest, DamageIsSaidOfTheFileAndNotOfTheMemory) {
  open();
  ASSERT_TRUE(calls_->begin(Version(1)).ok());
  ASSERT_TRUE(write(1).ok());
  fs::resize_file(folder() / store::weights_name(1, kShards), 1000);
  restart();
  auto files = called({store::weights_name(1, kShards)});
  const absl::Status status =
      files.in_words(store::check_safetensors(*files.to_read(store::weights_name(1, kShards))));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.ToString(),
              HasSubstr((folder() / store::weights_name(1, kShards)).string() + ": truncated"));
}

}  // namespace
}  // namespace paceline::coordinator_process
