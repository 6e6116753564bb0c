#include "paceline/formats/config/lowered_memory.h"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

JobConfig lowered_job(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto job = parse_job(text, "job.toml", sets);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

TEST(LoweredMemory, CountsMoreThanWhatTheJobOrACardHas) {
  const std::string text = "parallel = \"joint\"\n[[device]]\nmemory_mb = 500\n[[device]]\ncount = 3\n";
  const std::string setting = lowered_memory_setting({450.5, 6300, 0, 40});
  ASSERT_EQ(setting, "lowered_memory_mb=[450.5,6300,0,40]");
  const JobConfig job = lowered_job(text, {"card_memory_mb=[0,7000,7000,0]", setting});
  EXPECT_EQ(job.devices[0].memory_mb, 450.5);
  EXPECT_EQ(job.devices[1].memory_mb, 6300);
  EXPECT_EQ(job.devices[2].memory_mb, 7000);
  EXPECT_EQ(job.devices[3].memory_mb, 40);
  EXPECT_EQ(memory_words(job),
            "w2 7000 MB: their cards' free memory when the run began, less 1000 MB for each; w0 450.5 MB, w1 "
            "6300 MB, "
            "w3 40 MB: a little less than what had no room there earlier in this run");
}

TEST(LoweredMemory, GivesNoDeviceMore) {
  const JobConfig job = lowered_job("[[device]]\nmemory_mb = 500\n", {"lowered_memory_mb=[600]"});
  EXPECT_EQ(job.devices[0].memory_mb, 500);
  EXPECT_EQ(memory_words(job), "");
}

TEST(LoweredMemory, IsThatOfTheDevicesThatAreLeftWithoutALostHost) {
  const std::string text =
      "[[device]]\nmemory_mb = 500\nhost = 0\n[[device]]\ncount = 2\nmemory_mb = 600\nhost = 1\n"
      "[cluster]\nhosts = 2\ncopies = 2\n";
  const JobConfig job = lowered_job(text, {"cluster.without=[0]", "lowered_memory_mb=[0,40]"});
  ASSERT_EQ(job.devices.size(), 2u);
  EXPECT_EQ(job.devices[0].memory_mb, 600);
  EXPECT_EQ(job.devices[1].memory_mb, 40);
  EXPECT_EQ(lowered_job(text, {"lowered_memory_mb=[7,0,0]"}).devices[0].memory_mb, 7);
}

TEST(LoweredMemory, ARunWithOtherDevicesHasNoneOfTheNumbers) {
  EXPECT_EQ(lowered_job("[[device]]\ncount = 2\n", {"lowered_memory_mb=[7]"}).devices[0].memory_mb,
            std::nullopt);
}

}  // namespace
}  // namespace paceline::config
