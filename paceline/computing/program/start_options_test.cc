// Tests of what a program is told of its job, and of its place among the programs of the run.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "paceline/base/check.h"
#include "paceline/computing/program/program_engine.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::program {
namespace {

TEST(StartOptions, CountADeviceAmongThoseOfItsHost) {
  const auto job = config::parse_job(
      "[program]\nrun = \"train.py\"\n[cluster]\nhosts = 2\n[network]\nlisten = \"127.0.0.1:0\"\n"
      "[[device]]\nhost = 0\n[[device]]\nhost = 1\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n",
      "job.toml");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto number = [&](const std::string& name) {
    return start_options(*job, Role::kWorker, name, 1).start.on_host;
  };
  EXPECT_EQ(number("w0"), 0);
  EXPECT_EQ(number("w1"), 0);
  EXPECT_EQ(number("w2"), 1);
  EXPECT_EQ(number("w3"), 1);
  EXPECT_EQ(number("evaluator"), 0);
}

TEST(StartOptions, SayTheSamplesOfARoundIfDevicesAreStages) {
  const auto settings = [](const std::string& text) {
    const auto job = config::parse_job(text + "[program]\nrun = \"train.py\"\n", "job.toml");
    PACELINE_CHECK(job.ok(), "{}", job.status().ToString());
    const auto found = start_options(*job, Role::kWorker, "w0", 1).start.settings;
    return std::map<std::string, double>(found.begin(), found.end());
  };
  EXPECT_FALSE(settings("[[device]]\ncount = 3\n").contains("round"));
  EXPECT_EQ(settings("parallel = \"static\"\nmicro_batch = 4\n[[device]]\ncount = 3\n[[pipeline]]\n"
                     "devices = [\"w0\", \"w2\"]\ncuts = [1]\nsamples = 12\n[[pipeline]]\ndevices = "
                     "[\"w1\"]\nsamples = 4\n")
                .at("round"),
            16);
}

}  // namespace
}  // namespace paceline::program
