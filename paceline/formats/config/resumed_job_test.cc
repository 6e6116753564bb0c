#include "paceline/formats/config/resumed_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::config {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSamples = 1000;

JobConfig parsed_job(const std::string& text) {
  const auto parsed = parse_job(text, "job.toml");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

// The error of a run of the job `before` that is to go on with `now`; empty if it goes on.
std::string said(const std::string& before, const std::string& now, std::int64_t samples = kSamples) {
  const JobConfig first = parsed_job(before);
  const ResumedRun run{"runs/r", samples, samples_an_epoch(first, kSamples)};
  return std::string(check_resumed(first, parsed_job(now), run).message());
}

TEST(ResumedJob, GoesOnWithOtherSettings) {
  EXPECT_EQ(said("", ""), "");
  EXPECT_EQ(said("epochs = 1\nbatch = 32\n[optimizer]\nlr = 0.1\n",
                 "epochs = 2\nbatch = 64\n[optimizer]\nlr = 0.2\nnesterov = true\n[[device]]\ncount = 3\n"),
            "");
}

TEST(ResumedJob, KeepsItsData) {
  EXPECT_THAT(said("", "", kSamples - 1), HasSubstr("the data have 999 samples, and had 1000"));
}

TEST(ResumedJob, OfAJournalThatIsLostNobodyKnowsTheData) {
  EXPECT_TRUE(check_resumed(parsed_job(""), parsed_job(""), {"runs/r", 7, std::nullopt}).ok());
}

TEST(ResumedJob, KeepsItsSeed) {
  EXPECT_THAT(said("", "seed = 2\n"), HasSubstr("seed: the run began with 1"));
  EXPECT_EQ(said("", "seed = 1\n"), "");
}

TEST(ResumedJob, KeepsItsBatchesIfAnEpochLeavesOutTheLast) {
  const std::string first = "drop_last = true\nbatch = 32\n";
  EXPECT_EQ(said(first, first), "");
  EXPECT_EQ(said(first, "drop_last = true\nbatch = 16\n"), "") << "992 samples all the same";
  for (const std::string other : {"drop_last = true\nbatch = 64\n", "batch = 32\n"})
    EXPECT_THAT(said(first, other),
                HasSubstr("drop_last: an epoch of this run has 992 samples, and with other"))
        << other;
  EXPECT_THAT(said("", first), HasSubstr("drop_last: an epoch of this run has 1000 samples"));
  EXPECT_THAT(said(first, first, 900), HasSubstr("the data have 896 samples, and had 992"));
}

// A checkpoint has the state as numbers, which would mean something else.
TEST(ResumedJob, KeepsTheStateOfItsOptimizer) {
  const auto optimizer = [](const std::string& name) { return "[optimizer]\nname = \"" + name + "\"\n"; };
  const std::vector<std::vector<std::string>> same = {{"sgd"},     {"adam", "adamw", "nadam", "lamb"},
                                                      {"rmsprop"}, {"lion"},
                                                      {"lars"},    {"adafactor"},
                                                      {"adamax"},  {"adagrad"}};
  for (const auto& befores : same) {
    for (const auto& nows : same) {
      for (const std::string& before : befores) {
        for (const std::string& now : nows) {
          const std::string line = said(optimizer(before), optimizer(now));
          if (&befores == &nows) {
            EXPECT_EQ(line, "") << before << now;
          } else {
            EXPECT_THAT(line, HasSubstr("optimizer.name: the run began with " + before)) << before << now;
          }
        }
      }
    }
  }
  EXPECT_THAT(said("", optimizer("adagrad")),
              HasSubstr("sgd, whose state (velocity) is not that of adagrad"));
}

}  // namespace
}  // namespace paceline::config
