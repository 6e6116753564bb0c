#include "paceline/base/control_groups.h"

#include <stdlib.h>

#include <fstream>
#include <thread>

#include <gtest/gtest.h>

namespace paceline {
namespace {

namespace fs = std::filesystem;

class ControlGroup : public ::testing::Test {
 protected:
  ControlGroup() {
    std::string name = (fs::temp_directory_path() / "paceline-group-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ControlGroup() override { fs::remove_all(folder_); }
  void write(const std::string& file, const std::string& text) { std::ofstream(folder_ / file) << text; }
  std::optional<double> processors() const { return processors_of_group(folder_); }

  fs::path folder_;
};

TEST_F(ControlGroup, HasQuotaAndPeriodInOneFileInTheSecondVersion) {
  EXPECT_EQ(processors(), std::nullopt);
  write("cpu.max", "250000 100000\n");
  EXPECT_EQ(processors(), 2.5);
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(processors(), 0.5);
  for (const char* none : {"max 100000\n", "", "max", "0 100000", "-1 100000", "nan 100000", "100000 0"}) {
    write("cpu.max", none);
    EXPECT_EQ(processors(), std::nullopt) << none;
  }
}

TEST_F(ControlGroup, HasQuotaAndPeriodInTwoFilesInTheFirstVersion) {
  write("cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(processors(), std::nullopt);
  write("cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(), 4);
  write("cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(processors(), std::nullopt);
}

TEST(ControlGroups, EndWithTheRoot) {
  for (const char* controller : {"cpu", "memory"}) {
    const auto all = control_groups(controller);
    for (const fs::path& group : all) EXPECT_EQ(group.string().rfind("/sys/fs/cgroup", 0), 0u) << group;
  }
}

TEST(ControlGroups, AllowAProcessorAndNoMoreThanThereAre) {
  EXPECT_GE(usable_processors(), 1);
  EXPECT_LE(usable_processors(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

// Slurm, taskset and containers set one.
TEST(ControlGroups, AllowThoseOfTheCpuset) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++processor) {
    if (CPU_ISSET(processor, &all)) CPU_SET(processor, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

}  // namespace
}  // namespace paceline
