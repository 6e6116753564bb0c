// The files that are left when the disk fills up in the middle: on a file system of a few pages that only
// this process sees.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/line_file.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

// Makes mounts private to the process, so that none is left behind.
bool own_mounts() {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

class FullDiskTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { can_mount_ = own_mounts(); }

  // Mounts a file system of `kib` KiB at disk_.
  void SetUp() override {
    if (!mount(64)) GTEST_SKIP() << "needs the right to mount a small file system; run it as root";
  }
  void TearDown() override { ::umount2(disk_.path().c_str(), MNT_DETACH); }
  bool mount(int kib) {
    const std::string options = "size=" + std::to_string(kib) + "k";
    return can_mount_ && ::mount("tmpfs", disk_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  static void expect_full(const absl::Status& status) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("free some space"));
  }

  static bool can_mount_;
  const TestDirectory disk_;
};

bool FullDiskTest::can_mount_ = false;

TEST_F(FullDiskTest, AnAtomicWriteLeavesTheOldFile) {
  ASSERT_TRUE(atomic_write(disk_ / "file", "old").ok());
  expect_full(atomic_write(disk_ / "file", std::string(100'000, 'x')));
  EXPECT_EQ(*read_file(disk_ / "file", 100), "old");
  EXPECT_EQ(disk_.count(), 1);
}

TEST_F(FullDiskTest, NoTensorFileIsLeft) {
  const std::vector<float> data(30'000);
  const absl::Status status = write_safetensors(disk_ / "file", {{{"a", {30'000}, data.data()}}}, {});
  expect_full(status);
  EXPECT_THAT(std::string(status.message()), HasSubstr((disk_ / "file").string() + ": the disk is full"));
  EXPECT_EQ(disk_.count(), 0);
}

TEST_F(FullDiskTest, ALineIsThereOrNot) {
  auto lines = LineFile::open(disk_ / "lines");
  const std::string line(999, 'x');
  absl::Status status;
  while (status.ok()) status = lines->append_line(line);
  expect_full(status);
  const std::string text = *read_file(disk_ / "lines", 1 << 20);
  EXPECT_GT(text.size(), 0u);
  EXPECT_EQ(text.size() % 1000, 0u);
}

TEST_F(FullDiskTest, TheLastCheckpointStays) {
  ps::Layout small, large;
  small.add("w", ps::TensorKind::kParameter, {2});
  large.add("w", ps::TensorKind::kParameter, {20'000});
  const auto write = [&](std::int64_t version, const ps::Layout& layout) {
    const std::vector<float> weights(static_cast<std::size_t>(layout.size()));
    const auto writer = CheckpointWriter::begin(disk_.path(), Version(version));
    return write_shard(writer->directory(), 1, 1, layout, weights, {{}, 0});
  };
  ASSERT_TRUE(write(1, small).ok());
  auto writer = CheckpointWriter::begin(disk_.path(), Version(1));
  const std::vector<float> weights(static_cast<std::size_t>(small.size()));
  ASSERT_TRUE(write_shard(writer->directory(), 1, 1, small, weights, {{}, 0}).ok());
  ASSERT_TRUE(writer->finish({{Version(1), {}, {}}, Duration(0), 0, 1}).ok());

  expect_full(write(2, large));
  EXPECT_TRUE(read_shard(latest_checkpoint(disk_.path())->directory, 1, 1, small).ok());
}

TEST_F(FullDiskTest, AStateThatDoesNotFitLeavesTheLastCheckpoint) {
  ps::Layout layout;
  layout.add("w", ps::TensorKind::kParameter, {2});
  const std::vector<float> weights(static_cast<std::size_t>(layout.size()));
  for (const std::int64_t version : {1, 2}) {
    auto writer = CheckpointWriter::begin(disk_.path(), Version(version));
    ASSERT_TRUE(write_shard(writer->directory(), 1, 1, layout, weights, {{}, 0}).ok());
    std::ofstream hog(disk_ / "hog");
    if (version == 2) hog << std::string(100'000, 'x') << std::flush;
    const auto path = writer->finish({{Version(version), {}, {}}, Duration(0), 0, 1});
    if (version == 2) expect_full(path.status());
  }
  EXPECT_EQ(latest_checkpoint(disk_.path())->state.controller.version, Version(1));
}

TEST_F(FullDiskTest, AJournalKeepsWhatItHad) {
  ASSERT_TRUE(mount(512));
  const auto path = disk_ / "journal.sqlite";
  const auto events = controller_events("asp", 100'000);
  std::vector<std::string> kept;
  {
    auto journal = Journal::open(path, Version(0));
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (std::size_t i = 0; i < events.size() && (*journal)->status().ok(); ++i) {
      tell(events[i], **journal);
      if (i % 100 == 99 && (*journal)->flush().ok())
        kept = describe({events.begin(), events.begin() + i + 1});
    }
    expect_full((*journal)->status());
  }
  EXPECT_GT(kept.size(), 100u);
  Recorder recorder;
  ASSERT_TRUE(JournalReader::open(path)->replay(recorder).ok());
  EXPECT_EQ(recorder.lines, kept);
  ::umount2(disk_.path().c_str(), MNT_DETACH);
}

TEST_F(FullDiskTest, NoHalfRunFolderIsLeft) {
  const auto run = RunFolder::create(disk_.path(), "a", "bsp", {}, std::string(100'000, 'x'));
  expect_full(run.status());
  EXPECT_EQ(disk_.count(), 0);
}

}  // namespace
}  // namespace paceline::store
