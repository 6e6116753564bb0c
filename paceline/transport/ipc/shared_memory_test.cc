// Shared memory between processes: reached through its owner, sealed, and gone with it.
#include "paceline/transport/ipc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"

namespace paceline::ipc {
namespace {

using paceline::testing::ChildProcess;
using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096;

TEST(SharedMemory, StartsAsZeros) {
  const SharedMemory memory = SharedMemory::create("test", 3 * kPage).value();
  const Mapping mapping = memory.map(0, 3 * kPage, false).value();
  EXPECT_EQ(memory.size(), 3 * kPage);
  for (std::size_t i = 0; i < mapping.size(); ++i) ASSERT_EQ(mapping.data()[i], std::byte{0});
}

TEST(SharedMemory, AnotherProcessSeesAndWritesTheSame) {
  const SharedMemory memory = SharedMemory::create("test", 2 * kPage).value();
  const Mapping mine = memory.map(0, 2 * kPage, true).value();
  std::strcpy(reinterpret_cast<char*>(mine.data()) + kPage, "from the parent");
  ChildProcess child([&](const ChildProcess::Parent&) {
    const auto opened = SharedMemory::open(memory.path());
    if (!opened.ok() || opened->size() != 2 * kPage) return 1;
    const auto theirs = opened->map(kPage, kPage, true);
    if (!theirs.ok()) return 2;
    char* text = reinterpret_cast<char*>(theirs->data());
    if (std::string(text) != "from the parent") return 3;
    std::strcpy(text, "from the child");
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_STREQ(reinterpret_cast<char*>(mine.data()) + kPage, "from the child");
}

TEST(SharedMemory, NobodyCanChangeItsSize) {
  const SharedMemory memory = SharedMemory::create("test", 2 * kPage).value();
  const int fd = open(memory.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_NE(ftruncate(fd, kPage), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(fd, 3 * kPage), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor add a seal";
  close(fd);
}

TEST(SharedMemory, CannotBeOpenedOnceItsOwnerHasClosedIt) {
  std::string path;
  {
    const SharedMemory memory = SharedMemory::create("test", kPage).value();
    path = memory.path();
    EXPECT_TRUE(SharedMemory::open(path).ok());
  }
  EXPECT_EQ(SharedMemory::open(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(SharedMemory, OutlivesItsOwnerForThoseWhoHaveItAndForNobodyElse) {
  ChildProcess owner([](const ChildProcess::Parent& parent) {
    const SharedMemory memory = SharedMemory::create("test", kPage).value();
    const Mapping mapping = memory.map(0, kPage, true).value();
    std::strcpy(reinterpret_cast<char*>(mapping.data()), "left behind");
    parent.say(memory.path());
    parent.hear();  // until it is killed
    return 0;
  });
  const std::string path = owner.hear();
  const SharedMemory memory = SharedMemory::open(path).value();
  const Mapping mapping = memory.map(0, kPage, false).value();
  owner.kill();
  EXPECT_STREQ(reinterpret_cast<const char*>(mapping.data()), "left behind");
  EXPECT_EQ(SharedMemory::open(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(SharedMemory, AFileThatIsNotOursIsRefused) {
  std::string path = ::testing::TempDir() + "paceline-foreign-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  close(fd);
  const absl::Status refused = SharedMemory::open(path).status();
  unlink(path.c_str());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
}

TEST(SharedMemory, UnsealedMemoryIsRefused) {
  const int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(fd, 0);
  const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), fd);
  EXPECT_EQ(SharedMemory::open(path).status().code(), absl::StatusCode::kInvalidArgument);
  close(fd);
}

TEST(SharedMemory, WhatIsBeyondItsEndCannotBeMapped) {
  const SharedMemory memory = SharedMemory::create("test", 2 * kPage).value();
  EXPECT_TRUE(memory.map(kPage, kPage, false).ok());
  EXPECT_EQ(memory.map(kPage, kPage + 1, false).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.map(3 * kPage, 1, false).status().code(), absl::StatusCode::kInvalidArgument);
  // A size so large that adding the offset wraps around.
  EXPECT_EQ(memory.map(kPage, SIZE_MAX - kPage + 1, false).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SharedMemory, CanBeMovedAround) {
  SharedMemory first = SharedMemory::create("first", kPage).value();
  SharedMemory second = SharedMemory::create("second", 2 * kPage).value();
  const std::string path = first.path();
  second = std::move(first);
  EXPECT_EQ(second.path(), path);
  EXPECT_EQ(second.size(), kPage);
  Mapping mapping = second.map(0, kPage, true).value();
  Mapping moved = std::move(mapping);
  EXPECT_EQ(mapping.data(), nullptr);
  moved.data()[0] = std::byte{1};
}

}  // namespace
}  // namespace paceline::ipc
