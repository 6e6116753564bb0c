#include "paceline/transport/ipc/descriptor_keep.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/answered_call.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::ipc {
namespace {

TEST(DescriptorKeep, HasTheMemoryOfAProcessThatIsGone) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  EXPECT_FALSE(keep.look());
  const pid_t child = fork();
  if (child == 0) {
    const SharedMemory memory = SharedMemory::create("left", kPageBytes).value();
    std::strcpy(reinterpret_cast<char*>(memory.map(0, kPageBytes, true).value().data()), "here");
    const std::array<int, 1> one{memory.descriptor()};
    _exit(keep.keep("of a child", one).ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  for (int look = 0; look < 2; ++look) {
    std::optional<PassedMessage> found = keep.look();
    ASSERT_TRUE(found) << look;
    EXPECT_EQ(found->text, "of a child");
    ASSERT_EQ(found->descriptors.size(), 1u) << look;
    const SharedMemory memory = SharedMemory::adopt(std::move(found->descriptors[0])).value();
    EXPECT_STREQ(reinterpret_cast<const char*>(memory.map(0, kPageBytes, false).value().data()), "here");
  }
}

std::size_t pages_of(PassedMessage message, std::size_t which) {
  return SharedMemory::adopt(std::move(message.descriptors.at(which))).value().size() / kPageBytes;
}

TEST(DescriptorKeep, HasOnlyWhatWasKeptLast) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  for (const std::size_t pages : {1, 2, 3}) {
    const SharedMemory memory = SharedMemory::create("left", pages * kPageBytes).value();
    const std::array<int, 2> both{memory.descriptor(), memory.descriptor()};
    ASSERT_TRUE(keep.keep(std::string(10 * pages, 'x'), both).ok());
    std::optional<PassedMessage> found = keep.look();
    ASSERT_TRUE(found && found->descriptors.size() == 2);
    EXPECT_EQ(found->text.size(), 10 * pages);
    EXPECT_EQ(pages_of(*std::move(found), 1), pages);
  }
  keep.clear();
  EXPECT_FALSE(keep.look());
}

// The process was killed before it could drop what was kept before.
TEST(DescriptorKeep, HasTheLastOfTwoThatWereLeft) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  for (const std::size_t pages : {4, 2}) {
    const SharedMemory memory = SharedMemory::create("left", pages * kPageBytes).value();
    const std::array<int, 1> one{memory.descriptor()};
    ASSERT_TRUE(send_with_descriptors(keep.ends()[0], std::string(pages, 'x'), one, MSG_DONTWAIT));
  }
  EXPECT_EQ(pages_of(*keep.look(), 0), 2u);
  const SharedMemory memory = SharedMemory::create("left", kPageBytes).value();
  const std::array<int, 1> one{memory.descriptor()};
  ASSERT_TRUE(keep.keep("x", one).ok());
  EXPECT_EQ(pages_of(*keep.look(), 0), 1u);
  keep.clear();
  EXPECT_FALSE(keep.look());
}

TEST(DescriptorKeep, StaysAsItIsIfMoreIsToBeKeptThanItCan) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  const SharedMemory memory = SharedMemory::create("left", kPageBytes).value();
  const std::vector<int> most(DescriptorKeep::kMost, memory.descriptor()),
      too_many(DescriptorKeep::kMost + 1, memory.descriptor());
  ASSERT_TRUE(keep.keep(std::string(DescriptorKeep::kLongest, 'x'), most).ok());
  EXPECT_EQ(keep.keep("y", too_many).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(keep.keep(std::string(DescriptorKeep::kLongest + 1, 'y'), {}).code(),
            absl::StatusCode::kResourceExhausted);
  const std::optional<PassedMessage> found = keep.look();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text.size(), DescriptorKeep::kLongest);
  EXPECT_EQ(found->descriptors.size(), most.size());
}

// A sandbox may take the option of the socket, and ignore it.
TEST(DescriptorKeep, IsRefusedWithoutPeekOffsets) {
  constexpr int kNoFilter = 77;
  for (const std::uint32_t answer : {0, ENOPROTOOPT}) {
    const pid_t child = fork();
    if (child == 0) {
      if (!testing::answer_call(SYS_setsockopt, answer, SO_PEEK_OFF)) _exit(kNoFilter);
      _exit(absl::IsUnimplemented(DescriptorKeep::open().status()) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilter)
      GTEST_SKIP() << "no filter for system calls can be had here";
    EXPECT_EQ(status, 0) << answer;
  }
}

}  // namespace
}  // namespace paceline::ipc
