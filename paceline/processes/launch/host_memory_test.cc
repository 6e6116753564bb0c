#include "paceline/processes/launch/host_memory.h"

#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::launch {
namespace {

class MemoryOfAGroup : public ::testing::Test {
 protected:
  void write(const char* file, const std::string& text) {
    ASSERT_TRUE(store::atomic_write(directory_ / file, text).ok());
  }
  std::optional<std::int64_t> left() { return memory_left_in(directory_ / "."); }

  store::TestDirectory directory_;
};

TEST_F(MemoryOfAGroup, IsItsLimitWithoutWhatItHasTaken) {
  write("memory.current", "7000\n");
  EXPECT_EQ(left(), std::nullopt);
  write("memory.max", "max\n");
  EXPECT_EQ(left(), std::nullopt);
  write("memory.max", "8000\n");
  EXPECT_EQ(left(), 1000);
  write("memory.stat", "anon 3000\nfile 2600\ninactive_file 2000\nactive_file 500\n");
  EXPECT_EQ(left(), 3500) << "the kernel gives files back";
  write("memory.current", "9000\n");
  write("memory.stat", "");
  EXPECT_EQ(left(), 0);
}

TEST_F(MemoryOfAGroup, HasOtherNamesInTheFirstVersion) {
  write("memory.limit_in_bytes", "8000\n");
  write("memory.usage_in_bytes", "7000\n");
  write("memory.stat", "cache 900\ninactive_file 10\ntotal_inactive_file 500\ntotal_active_file 100\n");
  EXPECT_EQ(left(), 1600);
}

}  // namespace
}  // namespace paceline::launch
