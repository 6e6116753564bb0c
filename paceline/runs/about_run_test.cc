// What a report says of its run, and the file that it has this from.
#include "paceline/runs/about_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/store/files.h"
#include "paceline/store/test_directory.h"

namespace paceline::runs {
namespace {

std::string text_of(const report::Json& about, const std::string& name) {
  for (const report::Json& one : about) {
    if (one.at(0) == name) return one.at(1).get<std::string>();
  }
  return "(nothing)";
}

config::JobConfig job_of(const std::string& text) { return config::parse_job(text, "job.toml").value(); }

TEST(AboutRunTest, AJobIsDescribedByWhatItTrainsAndOnWhat) {
  const report::Json about =
      about_run(job_of("batch = 8\nseed = 7\n[model]\nname = \"mlp\"\nwidth = 64\n[data]\n"
                       "source = \"mnist:/data\"\ntrain_samples = 500\n[optimizer]\nlr = 0.02\n"
                       "[[device]]\ncount = 3\npace_ms = 30\n[[device]]\npace_ms = 90\n"),
                std::nullopt);
  EXPECT_EQ(text_of(about, "model"), "mlp, width 64");
  EXPECT_EQ(text_of(about, "data"), "mnist:/data, the first 500 samples");
  EXPECT_EQ(text_of(about, "devices"),
            "w0 to w2 (batch 8, 30 ms an iteration); w3 (batch 8, 90 ms an iteration)");
  EXPECT_EQ(text_of(about, "learning rate"), "0.02");
  EXPECT_EQ(text_of(about, "seed"), "7");
  EXPECT_EQ(text_of(about, "command"), "(nothing)");
}

TEST(AboutRunTest, AThousandDevicesAreAFew) {
  std::string text;
  for (int i = 1; i <= 100; ++i) text += "[[device]]\npace_ms = " + std::to_string(i) + "\n";
  const std::string devices = text_of(about_run(job_of(text), std::nullopt), "devices");
  EXPECT_THAT(devices, testing::EndsWith("; and 88 more"));
}

TEST(AboutRunTest, TheOriginIsReadAsItWasWritten) {
  const store::TestDirectory directory;
  const store::RunPaths run{directory.path()};
  EXPECT_FALSE(read_origin(run).has_value());
  const RunOrigin origin = this_origin("1.2.3");
  EXPECT_THAT(origin.command, testing::StartsWith("paceline"));
  EXPECT_THAT(origin.date, testing::MatchesRegex("20..-..-.. ..:..:.. UTC"));
  ASSERT_TRUE(write_origin(run, origin).ok());
  const report::Json about = about_run(job_of(""), read_origin(run));
  EXPECT_EQ(text_of(about, "version"), "1.2.3");
  EXPECT_EQ(text_of(about, "processor"), origin.processor);
  ASSERT_TRUE(store::atomic_write(run.root / "origin.json", "[1, 2").ok());
  EXPECT_FALSE(read_origin(run).has_value());
  ASSERT_TRUE(
      store::atomic_write(run.root / "origin.json", "{\"host\": 1, \"command\": \"a\\u0007b\"}").ok());
  EXPECT_EQ(read_origin(run)->command, "a?b");
}

}  // namespace
}  // namespace paceline::runs
