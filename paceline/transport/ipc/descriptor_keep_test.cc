#include "paceline/transport/ipc/descriptor_keep.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include <gtest/gtest.h>

#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::ipc {
namespace {

TEST(DescriptorKeep, HasTheMemoryOfAProcessThatIsGone) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  EXPECT_TRUE(keep.look().empty());
  const pid_t child = fork();
  if (child == 0) {
    const SharedMemory memory = SharedMemory::create("left", kPageBytes).value();
    std::strcpy(reinterpret_cast<char*>(memory.map(0, kPageBytes, true).value().data()), "here");
    _exit(keep.keep({memory.descriptor()}).ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  for (int look = 0; look < 2; ++look) {
    std::vector<FileDescriptor> found = keep.look();
    ASSERT_EQ(found.size(), 1u) << look;
    const SharedMemory memory = SharedMemory::adopt(std::move(found[0])).value();
    EXPECT_STREQ(reinterpret_cast<const char*>(memory.map(0, kPageBytes, false).value().data()), "here");
  }
}

TEST(DescriptorKeep, HasOnlyWhatWasKeptLast) {
  DescriptorKeep keep = DescriptorKeep::open().value();
  for (const std::size_t pages : {1, 2}) {
    const SharedMemory memory = SharedMemory::create("left", pages * kPageBytes).value();
    ASSERT_TRUE(keep.keep({memory.descriptor(), memory.descriptor()}).ok());
  }
  std::vector<FileDescriptor> found = keep.look();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(SharedMemory::adopt(std::move(found[1])).value().size(), 2 * kPageBytes);
  keep.clear();
  EXPECT_TRUE(keep.look().empty());
}

}  // namespace
}  // namespace paceline::ipc
