#include "paceline/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(MemoryFile, IsEmptyAndMayBeSealed) {
  const FileDescriptor file = new_memory_file("test");
  ASSERT_TRUE(file.valid());
  struct stat about {};
  ASSERT_EQ(fstat(file.get(), &about), 0);
  EXPECT_EQ(about.st_size, 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_NE(fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

// A hardened host gives no other files.
TEST(MemoryFile, CannotBeExecuted) {
  const FileDescriptor known(memfd_create("test", 0x8));
  if (!known.valid()) GTEST_SKIP() << "this Linux is older than 6.3";
  struct stat about {};
  ASSERT_EQ(fstat(new_memory_file("test").get(), &about), 0);
  EXPECT_EQ(about.st_mode & 0111, 0u);
}

TEST(MemoryFile, WithANameThatIsTooLongIsNone) {
  const FileDescriptor file = new_memory_file(std::string(1'000, 'x'));
  EXPECT_FALSE(file.valid());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace paceline
