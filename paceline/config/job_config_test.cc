// What a job file says, and files that are wrong in ways that a message could repeat. tests/ has the rest.
#include "paceline/config/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_one_line(const absl::Status& status, const std::string& says) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(says), Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

TEST(JobConfig, AnErrorStaysOneLineWhateverItQuotes) {
  expect_one_line(parse_job("augment = tru\n", "job.toml").status(), "job.toml:1: not TOML");
  expect_one_line(parse_job("\"a\\nb\\u001b[2J\" = 3\n", "job.toml").status(), "job.toml:1: a b [2J: ");
  expect_one_line(parse_job("[sync]\npolicy = \"b\\nsp\"\n", "job.toml").status(), "policy 'b sp'");
  expect_one_line(parse_job("", "job.toml", {"a\nb"}).status(), "--set a b: write KEY=VALUE");
}

TEST(JobConfig, LooksAheadWhereTheFileSaysSo) {
  const auto looks_ahead = [](const std::string& text, const std::vector<std::string>& sets) {
    const JobConfig job = parse_job(text, "job.toml", sets).value();
    EXPECT_EQ(controller_config(job, 100).look_ahead, job.look_ahead);
    return job.look_ahead;
  };
  for (const char* policy : {"bsp", "asp", "ssp:3", "dssp:3-15", "elastic-bsp:15"}) {
    const std::string set = std::string("sync.policy=") + policy;
    EXPECT_FALSE(looks_ahead("", {set})) << policy;
    EXPECT_TRUE(looks_ahead("", {set, "sync.look_ahead=true"})) << policy;
  }
  EXPECT_FALSE(looks_ahead("[sync]\nlook_ahead = false\n", {}));
}

}  // namespace
}  // namespace paceline::config
