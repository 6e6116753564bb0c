#include "paceline/tools/cli/run_command.h"

#include <gtest/gtest.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::cli {
namespace {

int asked(const std::string& value) { return asked_threads({{"OMP_NUM_THREADS", value}}); }

TEST(RunCommand, TakesTheThreadsThatThePersonHasSet) {
  EXPECT_EQ(asked("8"), 8);
  EXPECT_EQ(asked("4,2"), 4);
  EXPECT_EQ(asked_threads({}), 0);
  for (const char* no_number : {"", "many", "-1", "0", "100000", ","})
    EXPECT_EQ(asked(no_number), 0) << no_number;
}

TEST(RunCommand, WritesThemIntoTheJob) {
  RunOptions options;
  options.program = "train.py";
  const auto threads = [&] { return config::parse_job(job_of(options), "job.toml")->devices.at(0).threads; };
  const int otherwise = threads();
  options.threads = otherwise + 7;
  EXPECT_EQ(threads(), otherwise + 7);
}

}  // namespace
}  // namespace paceline::cli
