// The description of a run in its report, and the file of its origin.
#include "paceline/processes/runs/about_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

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
  EXPECT_EQ(text_of(about, "optimizer"), "sgd, momentum 0.9");
  EXPECT_EQ(text_of(about, "learning rate"), "0.02");
  EXPECT_EQ(text_of(about, "schedule"), "constant");
  EXPECT_EQ(text_of(about, "seed"), "7");
  EXPECT_EQ(text_of(about, "command"), "(nothing)");
}

TEST(AboutRunTest, HowTheWeightsAreSteppedIsSaid) {
  const auto said = [](const std::string& text) {
    const report::Json about = about_run(job_of(text), std::nullopt);
    return text_of(about, "optimizer") + "; " + text_of(about, "schedule");
  };
  EXPECT_EQ(said("[optimizer]\nnesterov = true\nweight_decay = 0.0001\n[schedule]\nshape = \"step\"\n"
                 "milestones = [30, 60.5]\nwarmup_epochs = 2\n"),
            "sgd with Nesterov's momentum, momentum 0.9, weight decay 0.0001; times 0.1 at epoch 30, 60.5, "
            "warm-up of 2 epochs");
  EXPECT_EQ(said("[optimizer]\nname = \"adamw\"\nclip = 1\n[schedule]\nshape = \"cosine\"\n"),
            "adamw, beta1 0.9, beta2 0.999, gradients clipped at 1; cosine to 0");
  EXPECT_EQ(said("[optimizer]\nname = \"adafactor\"\n[schedule]\nshape = \"table\"\n"
                 "table = [[0, 0.1], [1, 1]]\n"),
            "adafactor; a table of 2 points");
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"adam", "adam, beta1"},  {"rmsprop", "rmsprop, momentum 0"},
      {"lion", "lion, beta1"},  {"lars", "lars, momentum"},
      {"lamb", "lamb, beta1"},  {"adamax", "adamax, beta1"},
      {"nadam", "nadam, beta1"}};
  for (const auto& [name, begin] : kinds)
    EXPECT_THAT(said("optimizer.name = \"" + name + "\"\n"), testing::StartsWith(begin));
}

TEST(AboutRunTest, ListsTheDifferencesOfSeveralJobs) {
  const report::Json about = about_jobs(
      {job_of("seed = 1\nbatch = 8\n"), job_of("seed = 2\nbatch = 16\n"), job_of("seed = 1\nbatch = 8\n")});
  EXPECT_EQ(text_of(about, "seed"), "1, 2");
  EXPECT_EQ(text_of(about, "learning rate"), "0.05");
  EXPECT_EQ(text_of(about, "devices"), "w0 (batch 8, as fast as it can) | w0 (batch 16, as fast as it can)");
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
  RunOrigin origin = this_origin("1.2.3");
  origin.data_note = "only the test files are here";
  EXPECT_THAT(origin.command, testing::StartsWith("paceline"));
  EXPECT_THAT(origin.date, testing::MatchesRegex("20..-..-.. ..:..:.. UTC"));
  ASSERT_TRUE(write_origin(run, origin).ok());
  const report::Json about = about_run(job_of(""), read_origin(run));
  EXPECT_EQ(text_of(about, "version"), "1.2.3");
  EXPECT_EQ(text_of(about, "processor"), origin.processor);
  EXPECT_EQ(text_of(about, "about the data"), "only the test files are here");
  ASSERT_TRUE(store::atomic_write(run.root / "origin.json", "[1, 2").ok());
  EXPECT_FALSE(read_origin(run).has_value());
  ASSERT_TRUE(
      store::atomic_write(run.root / "origin.json", "{\"host\": 1, \"command\": \"a\\u0007b\"}").ok());
  EXPECT_EQ(read_origin(run)->command, "a?b");
}

}  // namespace
}  // namespace paceline::runs
