// Job files that are wrong in ways that a message could repeat: it stays one line. tests/ has the rest.
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

}  // namespace
}  // namespace paceline::config
