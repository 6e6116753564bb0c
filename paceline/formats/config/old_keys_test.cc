#include "paceline/formats/config/old_keys.h"

#include <string>

#include <gtest/gtest.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::config {
namespace {

constexpr char kOld[] =
    "epochs = 2\n[cluster]\nhosts = 2\nreplicas = 2\n[[replica]]\ncount = 2\npace_ms = "
    "5\n[replica.link]\ngbps = 3\n"
    "[[change]]\nreplica = 1\nat_s = 4\nuntil_s = 5\n";
constexpr char kNew[] =
    "epochs = 2\n[cluster]\nhosts = 2\ncopies = 2\n[[device]]\ncount = 2\npace_ms = 5\n[device.link]\ngbps = "
    "3\n"
    "[[change]]\ndevice = 1\nat_s = 4\nuntil_s = 5\n";

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
  return std::string(parse_job(text, "job.toml", sets).status().message());
}

TEST(OldKeys, AFileIsToldWhatToWrite) {
  EXPECT_EQ(refusal("[[replica]]\ncount = 2\n"),
            "job.toml:1: replica: is called device now; write [[device]]");
  EXPECT_EQ(refusal("[cluster]\nhosts = 2\nreplicas = 2\n"),
            "job.toml:3: cluster.replicas: is called copies now; write copies");
  EXPECT_EQ(refusal("[[change]]\nreplica = 0\nuntil_s = 3\n"),
            "job.toml:2: change.replica: is called device now; write device");
  EXPECT_EQ(refusal("epochs = 1\n", {"cluster.replicas=2"}),
            "--set cluster.replicas=2: is called copies now; write copies");
}

TEST(OldKeys, ARecordedJobMeansWhatItMeant) {
  const auto old_job = parse_job(with_current_keys(kOld), "job.toml");
  ASSERT_TRUE(old_job.ok()) << old_job.status();
  EXPECT_EQ(resolve_job(with_current_keys(kOld), "job.toml", {}).value(),
            resolve_job(kNew, "job.toml", {}).value());
  EXPECT_EQ(old_job->devices.size(), 2u);
  EXPECT_EQ(old_job->copies, 2);
  EXPECT_EQ(old_job->slowdowns.at(0).device, 1);
}

// The key counted when a job could say both.
TEST(OldKeys, ARecordedJobMayHaveAnOptionOfItsPolicyTwice) {
  const std::string both = "[sync]\npolicy = \"cgp:patience=0.1:k_max=2\"\npatience = 0.3\n";
  EXPECT_FALSE(parse_job(both, "job.toml").ok());
  const auto recorded = parse_job(with_current_keys(both), "job.toml");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(policy::to_string(recorded->policy), "cgp:k_max=2:patience=0.3");
  const std::string once = "[sync]\npolicy = \"cgp:k_min=2\"\npatience = 0.3\n";
  EXPECT_EQ(with_current_keys(once), once);
}

TEST(OldKeys, OtherTextsStayAsTheyAre) {
  for (const char* text : {kNew, "# a remark\nepochs = 3\n", "not TOML ["})
    EXPECT_EQ(with_current_keys(text), text);
  // A text with both names is refused later, not changed here.
  const std::string both = "[cluster]\nreplicas = 2\ncopies = 2\n";
  EXPECT_EQ(with_current_keys(both), both);
}

}  // namespace
}  // namespace paceline::config
