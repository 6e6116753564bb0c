#include "paceline/records/store/checkpoint.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_formats.h"

namespace paceline::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Root may delete anything, so the test becomes another user for a while, who owns the folder.
class AsNobody {
 public:
  explicit AsNobody(const fs::path& folder) : before_(::geteuid()) {
    if (before_ != 0) return;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) own(entry.path());
    own(folder);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  ~AsNobody() { EXPECT_EQ(::seteuid(before_), 0); }

 private:
  static constexpr uid_t kNobody = 65534;
  static void own(const fs::path& path) { EXPECT_EQ(::chown(path.c_str(), kNobody, kNobody), 0) << path; }

  const uid_t before_;
};

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() { layout_.add("w", ps::TensorKind::kParameter, {2}); }

  static CheckpointState state_of(std::int64_t version) {
    CheckpointState state;
    state.controller = {Version(version), {.next = 10 * version, .open = {}}, {}};
    state.samples = 10 * version;
    state.shards = 1;
    return state;
  }
  CheckpointWriter begin(std::int64_t version, float weight = 1) {
    auto writer = CheckpointWriter::begin(run_, Version(version));
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::vector<float> weights(static_cast<std::size_t>(layout_.size()), weight);
    EXPECT_TRUE(write_shard(writer->directory(), 1, 1, layout_, weights, {{}, 0}).ok());
    return *std::move(writer);
  }
  fs::path make(std::int64_t version, float weight = 1) {
    const auto path = begin(version, weight).finish(state_of(version));
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints"))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const TestDirectory directory_;
  const fs::path run_ = directory_.path();
  ps::Layout layout_;
};

TEST_F(CheckpointTest, TheLatestIsFound) {
  make(9);
  EXPECT_EQ(make(10).filename(), "v000000000010");
  const auto latest = latest_checkpoint(run_);
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->state.controller.version, Version(10));
  EXPECT_TRUE(read_shard(latest->directory, 1, 1, layout_).ok());
}

TEST_F(CheckpointTest, TwoAreKept) {
  for (const std::int64_t version : {1, 5, 30}) make(version);
  EXPECT_EQ(names(), (std::vector<std::string>{"v000000000005", "v000000000030"}));
}

TEST_F(CheckpointTest, ANewerOneDoesNotCountAmongTheKept) {
  for (const std::int64_t version : {30, 1, 3, 5}) make(version);
  EXPECT_EQ(names(), (std::vector<std::string>{"v000000000003", "v000000000005", "v000000000030"}));
}

TEST_F(CheckpointTest, IgnoresAnUnfinishedCheckpoint) {
  make(1);
  make(2);
  begin(3);
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(2));
  EXPECT_EQ(names().size(), 3u);
  ASSERT_TRUE(remove_partial_checkpoints(run_).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"v000000000001", "v000000000002"}));
}

TEST_F(CheckpointTest, RemovesAFolderThatIsStillWrittenInto) {
  const fs::path partial = begin(1).directory();
  fs::create_directories(partial);
  std::atomic<bool> begun = false;
  std::jthread writer([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested() && i < 2000; ++i) {
      std::ofstream(partial / std::to_string(i)) << "x";
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  EXPECT_TRUE(remove_partial_checkpoints(run_).ok());
  EXPECT_TRUE(names().empty());
}

TEST_F(CheckpointTest, AMissingShardKeepsTheOlderOnes) {
  make(1);
  CheckpointWriter writer = begin(2);
  CheckpointState state = state_of(2);
  state.shards = 2;
  const auto path = writer.finish(state);
  EXPECT_TRUE(absl::IsFailedPrecondition(path.status()));
  EXPECT_THAT(std::string(path.status().message()), HasSubstr("weights-1-of-2.safetensors"));
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(1));
}

// Servers may still write into a directory that was given up.
TEST_F(CheckpointTest, EachTryHasADirectoryOfItsOwn) {
  const fs::path earlier = begin(1).directory();
  const auto writer = CheckpointWriter::begin(run_, Version(1));
  EXPECT_NE(writer->directory(), earlier);
  EXPECT_TRUE(fs::is_empty(writer->directory()));
  EXPECT_FALSE(fs::is_empty(earlier));
  make(1);
  EXPECT_EQ(names(), (std::vector<std::string>{"v000000000001"})) << "the others go with the end of one";
}

// The files cannot be deleted, because their directory must not be written to.
TEST_F(CheckpointTest, LeavesWhatCannotBeDeletedWithoutHarm) {
  const fs::path partial = begin(7).directory();
  for (const std::int64_t version : {1, 2}) make(version);
  for (const fs::path& path : {partial, run_ / "checkpoints" / "v000000000001"}) {
    fs::create_directory(path / "held");
    put_bytes(path / "held" / "file", "x");
    fs::permissions(path / "held", fs::perms::owner_read | fs::perms::owner_exec);
  }
  const AsNobody nobody(run_);
  EXPECT_FALSE(remove_partial_checkpoints(run_).ok());
  CheckpointWriter writer = begin(3);
  EXPECT_TRUE(writer.finish(state_of(3)).ok());
  EXPECT_FALSE(writer.left_over().ok());
  make(4);
  std::vector<std::int64_t> found;
  const auto all = checkpoints(run_);
  for (const Checkpoint& one : *all) found.push_back(one.state.controller.version.value());
  EXPECT_EQ(found, (std::vector<std::int64_t>{4, 3}));
  for (const auto& entry : fs::recursive_directory_iterator(run_))
    if (entry.path().filename() == "held") fs::permissions(entry.path(), fs::perms::owner_all);
}

TEST_F(CheckpointTest, ADamagedStateFallsBackToTheOneBefore) {
  make(1);
  ASSERT_TRUE(atomic_write(make(2) / "state.json", "{}").ok());
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(1));
}

// A person who goes back to an older Paceline would lose commits.
TEST_F(CheckpointTest, OneOfAnotherVersionDoesNotFallBackToTheOneBefore) {
  make(1);
  make(2);
  put_bytes(run_ / "checkpoints/v000000000002/state.json", in_next_format(to_text(state_of(2))));
  const absl::Status status = newest_whole_checkpoint(run_).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("v000000000002/state.json: written by another version of Paceline; use that one"));
}

TEST_F(CheckpointTest, WhenAllAreDamagedTheNewestIsNamed) {
  for (const std::int64_t version : {1, 2}) put_bytes(make(version) / "state.json", "{}");
  const auto status = latest_checkpoint(run_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("v000000000002/state.json: damaged: "));
}

// Cuts the file off at `size`; −1: removes it.
void damage(const fs::path& file, std::int64_t size) {
  if (size < 0) {
    fs::remove(file);
  } else {
    fs::resize_file(file, static_cast<std::uintmax_t>(size));
  }
}

TEST_F(CheckpointTest, TheNewestOfWhichAllFilesAreWholeIsFound) {
  for (const char* name : {"state.json", "weights-1-of-1.safetensors", "optimizer-1-of-1.safetensors"}) {
    for (const std::int64_t size : {-1, 0, 20}) {
      SCOPED_TRACE(fmt::format("{} of {} bytes", name, size));
      make(1);
      damage(make(2) / name, size);
      const auto found = newest_whole_checkpoint(run_);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->checkpoint.state.controller.version, Version(1));
      EXPECT_EQ(found->newest, Version(2));
      EXPECT_THAT(std::string(found->damage.message()), HasSubstr(fmt::format("v000000000002/{}: ", name)));
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(newest_whole_checkpoint(run_, Version(2)).status()));
}

TEST_F(CheckpointTest, TakesTheNewestIfItIsWhole) {
  make(1);
  make(2);
  const auto found = newest_whole_checkpoint(run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->checkpoint.state.controller.version, Version(2));
  EXPECT_TRUE(found->damage.ok()) << found->damage;
}

TEST_F(CheckpointTest, FindsTheCheckpointOfAVersion) {
  make(1);
  make(2);
  const auto found = newest_whole_checkpoint(run_, Version(1));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->checkpoint.state.controller.version, Version(1));
  EXPECT_TRUE(found->damage.ok()) << found->damage;
  const auto none = newest_whole_checkpoint(run_, Version(7)).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("no checkpoint of version 7; it has 2, 1"));
}

// A run whose checkpoints are all damaged must not start again as if it had none.
TEST_F(CheckpointTest, WhenNoneIsWholeTheNewestIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(newest_whole_checkpoint(run_).status()));
  for (const std::int64_t version : {1, 2}) damage(make(version) / "weights-1-of-1.safetensors", -1);
  const auto status = newest_whole_checkpoint(run_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("v000000000002/weights-1-of-1.safetensors: "));
}

// If a disk cannot be read for a moment, its checkpoints are not given up.
TEST_F(CheckpointTest, DoesNotTakeAnUnreadableFileForDamaged) {
  make(1);
  const fs::path weights = make(2) / "weights-1-of-1.safetensors";
  const AsNobody nobody(run_);
  fs::permissions(weights, fs::perms::none);
  EXPECT_TRUE(absl::IsPermissionDenied(newest_whole_checkpoint(run_).status()));
}

TEST_F(CheckpointTest, AStateOfAnotherVersionDoesNotCount) {
  make(1);
  fs::rename(make(2), run_ / "checkpoints" / "v000000000007");
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(1));
}

TEST_F(CheckpointTest, ALinkIsNoCheckpoint) {
  make(1);
  fs::rename(make(2), run_ / "elsewhere");
  fs::create_directory_symlink(run_ / "elsewhere", run_ / "checkpoints" / "v000000000002");
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(1));
}

TEST_F(CheckpointTest, OtherNamesAreLeftAlone) {
  for (const char* name :
       {"v", "v1", "vx", "v00000000000x", "notes", "v0000000000001", "v99999999999999999999"}) {
    fs::create_directories(run_ / "checkpoints" / name);
  }
  EXPECT_TRUE(absl::IsNotFound(latest_checkpoint(run_).status()));
  for (const std::int64_t version : {1, 2, 3}) make(version);
  EXPECT_EQ(names().size(), 9u);
}

TEST_F(CheckpointTest, ARunWithoutCheckpointsSaysSo) {
  EXPECT_TRUE(absl::IsNotFound(latest_checkpoint(run_).status()));
  EXPECT_TRUE(remove_partial_checkpoints(run_).ok());
}

TEST_F(CheckpointTest, AVersionThatComesAgainReplacesTheOldOne) {
  make(1, 10);
  const fs::path path = make(1, 20);
  EXPECT_EQ(read_shard(path, 1, 1, layout_)->weights[0], 20);
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(CheckpointTest, NewerOnesCanBeSetAside) {
  make(1);
  make(2);
  ASSERT_TRUE(set_aside_newer_checkpoints(run_, Version(1)).ok());
  EXPECT_EQ(latest_checkpoint(run_)->state.controller.version, Version(1));
  make(2);
  ASSERT_TRUE(set_aside_newer_checkpoints(run_, Version(1)).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"v000000000001", "v000000000002.set-aside",
                                               "v000000000002.set-aside-2"}));
}

}  // namespace
}  // namespace paceline::store
