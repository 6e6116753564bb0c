#include "paceline/formats/config/cgp_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::config {
namespace {

using ::testing::HasSubstr;

std::string policy_in(const std::string& sync, const std::vector<std::string>& sets = {}) {
  const auto job = parse_job("[sync]\n" + sync + "[[device]]\ncount = 8\n", "job.toml", sets);
  return job.ok() ? policy::to_string(job->policy) : std::string(job.status().message());
}

TEST(CgpKeys, AreOptionsThatTheTextLeavesOut) {
  EXPECT_EQ(policy_in("policy = \"cgp:k_max=4\"\nk_min = 2\npatience = 0.3\n"),
            "cgp:k_min=2:k_max=4:patience=0.3");
  EXPECT_EQ(policy_in("policy = \"ssp:3\"\nk_min = 2\npatience = 0.3\n"), "ssp:3");
}

// One of two values would count without a word.
TEST(CgpKeys, AreNotSaidInTheTextToo) {
  EXPECT_EQ(
      policy_in("policy = \"cgp:patience=0.1\"\npatience = 0.3\n"),
      "job.toml:3: sync.patience: policy 'cgp:patience=0.1' says patience too; say it in one of them only");
  EXPECT_THAT(policy_in("policy = \"cgp:patience=0.1\"\n", {"sync.patience=0.3"}),
              HasSubstr("--set sync.patience=0.3: policy 'cgp:patience=0.1' says patience too"));
  for (const auto& [option, key] :
       {std::pair{"k_min=2", "k_min = 2"}, std::pair{"k_max=2", "k_max = 2"},
        std::pair{"S=2", "staleness = 2"}, std::pair{"wait_max=2ms", "wait_max_ms = 2"},
        std::pair{"d=1", "delay = 1"}, std::pair{"grouping=dp", "grouping = \"dp\""}}) {
    EXPECT_THAT(policy_in(std::string("policy = \"cgp:") + option + "\"\n" + key + "\n"),
                HasSubstr("too; say it in one"))
        << option;
    EXPECT_EQ(policy_in(std::string("policy = \"cgp\"\n") + key + "\n"),
              policy_in(std::string("policy = \"cgp:") + option + "\"\n"))
        << option;
  }
}

}  // namespace
}  // namespace paceline::config
