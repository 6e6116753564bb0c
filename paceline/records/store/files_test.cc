#include "paceline/records/store/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

TEST(Files, ReadWhatWasWritten) {
  const TestDirectory directory;
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(atomic_write(directory / "file", bytes).ok());
  EXPECT_EQ(*read_file(directory / "file", 100), bytes);
  EXPECT_EQ(directory.count(), 1);
}

TEST(Files, AnOldFileIsReplacedWhole) {
  const TestDirectory directory;
  ASSERT_TRUE(atomic_write(directory / "file", std::string(100, 'x')).ok());
  ASSERT_TRUE(atomic_write(directory / "file", "new").ok());
  EXPECT_EQ(*read_file(directory / "file", 100), "new");
}

TEST(Files, WithoutACommitTheOldFileStays) {
  const TestDirectory directory;
  ASSERT_TRUE(atomic_write(directory / "file", "old").ok());
  {
    auto file = AtomicFile::create(directory / "file");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("new", 3).ok());
  }
  EXPECT_EQ(*read_file(directory / "file", 100), "old");
  EXPECT_EQ(directory.count(), 1);
}

TEST(Files, TwoWritersOfOneNameDoNotMix) {
  const TestDirectory directory;
  auto first = AtomicFile::create(directory / "file");
  auto second = AtomicFile::create(directory / "file");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->write("aaaa", 4).ok());
  ASSERT_TRUE(second->write("b", 1).ok());
  ASSERT_TRUE(second->commit().ok());
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(*read_file(directory / "file", 100), "aaaa");
}

TEST(Files, ADirectoryInTheWayIsAnError) {
  const TestDirectory directory;
  std::filesystem::create_directory(directory / "file");
  EXPECT_THAT(std::string(atomic_write(directory / "file", "x").message()), HasSubstr("/file: "));
  EXPECT_EQ(directory.count(), 1);
}

// Permissions are well there.
TEST(Files, AReadOnlyFileSystemIsNamed) {
  const absl::Status status = io_error("/runs/job", "made", EROFS);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_EQ(status.message(),
            "/runs/job: cannot be made on a read-only file system; name a file or folder on another one");
}

TEST(Files, TooLongAFileIsNotRead) {
  const TestDirectory directory;
  ASSERT_TRUE(atomic_write(directory / "file", "12345").ok());
  EXPECT_TRUE(read_file(directory / "file", 5).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(read_file(directory / "file", 4).status()));
}

TEST(Files, RefuseWhatIsNoRegularFile) {
  const TestDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(read_file(directory / "pipe", 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(read_file(directory.path(), 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(read_file("/dev/zero", 4).status()));
  EXPECT_TRUE(absl::IsNotFound(read_file(directory / "nothing", 4).status()));
}

TEST(Files, AMissingDirectoryIsNamed) {
  const auto status = atomic_write("/nowhere/at/all", "x");
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/at/all: no such file or directory"));
}

TEST(Files, AHomeFolderIsNotNamedAsInAShell) {
  for (const char* path : {"~", "~/runs"})
    EXPECT_TRUE(absl::IsInvalidArgument(absolute_path(path).status())) << path;
  for (const char* path : {"~runs", "./~", "runs/~"}) EXPECT_TRUE(absolute_path(path).ok()) << path;
}

}  // namespace
}  // namespace paceline::store
