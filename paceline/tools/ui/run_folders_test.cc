// Run folders on the pages: their lists, their states.
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/lock_file.h"
#include "paceline/tools/ui/run_card.h"
#include "paceline/tools/ui/runs_index.h"
#include "paceline/tools/ui/testing/run_folders.h"

namespace paceline::ui {
namespace {

// A run that went back to a checkpoint no longer has the best values that it reached after it.
TEST(MetricsLinesTest, TheBestIsForgottenWhereTheRunWentBack) {
  MetricsLines lines;
  const auto evaluation = [&](int samples, double loss, double accuracy) {
    lines.add(fmt::format("{{\"kind\":\"evaluation\",\"samples\":{},\"loss\":{},\"accuracy\":{}}}\n", samples,
                          loss, accuracy));
  };
  evaluation(100, 2.0, 0.5);
  evaluation(200, 1.0, 0.75);
  evaluation(300, 1.5, 0.625);
  EXPECT_EQ(lines.numbers().best_accuracy, 0.75);
  lines.add("{\"kind\":\"snapshot\",\"samples\":150}\n");
  EXPECT_EQ(lines.numbers().best_accuracy, 0.5);
  EXPECT_EQ(lines.numbers().best_loss, 2.0);
  evaluation(200, 1.25, 0.625);
  EXPECT_EQ(lines.numbers().best_accuracy, 0.625);
  EXPECT_EQ(lines.numbers().best_loss, 1.25);
  evaluation(50, 3.0, 0.25);
  EXPECT_EQ(lines.numbers().best_accuracy, 0.25);
  EXPECT_EQ(lines.numbers().best_loss, 3.0);
}

TEST(MetricsLinesTest, LinesMayComeInAnyPieces) {
  const std::string text =
      "{\"kind\":\"snapshot\",\"time_s\":1.5,\"samples\":64,\"total_samples\":100,\"samples_per_s\":40.5,"
      "\"commits\":2,"
      "\"training_loss\":2.5,\"finished\":false}\n"
      "{\"kind\":\"evaluation\",\"loss\":2.25,\"accuracy\":0.5}\nno json\n[1]\n"
      "{\"kind\":\"evaluation\",\"loss\":3,\"accuracy\":0.25}\n"
      "{\"kind\":\"snapshot\",\"samples\":-7,\"total_samples\":1e300,\"training_loss\":null,\"finished\":1}"
      "\n{\"kind\":\"snap";
  for (std::size_t piece = 1; piece < text.size(); piece = piece * 2 + 1) {
    MetricsLines lines;
    for (std::size_t i = 0; i < text.size(); i += piece) lines.add(std::string_view(text).substr(i, piece));
    EXPECT_EQ(lines.numbers().best_accuracy, 0.5);
    EXPECT_EQ(lines.numbers().accuracy, 0.25);
    EXPECT_EQ(lines.numbers().best_loss, 2.25);
    EXPECT_EQ(lines.numbers().samples, 0);
    EXPECT_EQ(lines.numbers().total_samples, 0);
    EXPECT_EQ(lines.damaged(), 2);
    EXPECT_EQ(lines.spark().size(), 2u);
  }
}

TEST(MetricsLinesTest, ALineWithoutAnEndIsNotKept) {
  MetricsLines lines;
  for (int i = 0; i < 40; ++i) lines.add(std::string(100000, 'x'));
  EXPECT_GE(lines.damaged(), 1);
}

TEST_F(RunFoldersTest, RunsAreFoundInFoldersOfFoldersByTheirNames) {
  make_run(root_ / "one");
  make_run(root_ / "compared" / "two", "asp");
  put(root_ / "notes" / "text.txt", "");
  fs::create_directory_symlink(root_ / "compared", root_ / "link");
  RunsIndex index({root_});
  index.look();
  EXPECT_EQ(index.json().size(), 2u);
  ASSERT_NE(index.find("compared/two"), nullptr);
  EXPECT_EQ(index.find("compared/two")->json().at("policy"), "asp");
  EXPECT_EQ(index.find("../one"), nullptr);
  EXPECT_EQ(index.find(""), nullptr);
  fs::remove_all(root_ / "one");
  index.look();
  EXPECT_EQ(index.find("one"), nullptr);
}

TEST_F(RunFoldersTest, ListTheNewestOfManyRuns) {
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 9; ++i) {
    const fs::path run = root_ / fmt::format("run{}", i);
    make_run(run);
    fs::last_write_time(run / "job.toml", now - std::chrono::hours(i * 4 % 9));
  }
  RunsIndex index({root_}, 3);
  index.look();
  EXPECT_EQ(index.json().size(), 3u);
  for (const char* newest : {"run0", "run7", "run5"}) EXPECT_NE(index.find(newest), nullptr) << newest;
  EXPECT_EQ(index.left_out(), 6u);
  for (const char* older : {"run1", "run2", "run3", "run4", "run6", "run8"}) fs::remove_all(root_ / older);
  index.look();
  EXPECT_EQ(index.left_out(), 0u);
}

// Losses of 0.00002 are drawn as a curve, and not as a line at 0.
TEST_F(RunFoldersTest, SmallLossesAreDrawn) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  put(run.metrics(),
      "{\"kind\":\"snapshot\",\"training_loss\":2.12549e-05}\n"
      "{\"kind\":\"snapshot\",\"training_loss\":1.5e-05}\n");
  RunCard card("run", run.root);
  card.look();
  EXPECT_EQ(card.json().at("spark"), report::Json({2.125e-5, 1.5e-5}));
}

// A look is short, however long the run; the numbers are those of now at once, and the best ones of all in the end.
TEST_F(RunFoldersTest, ALongFileIsReadOverSeveralLooks) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  std::string text;
  for (int i = 1; i <= 2000; ++i) {
    text +=
        fmt::format("{{\"kind\":\"snapshot\",\"samples\":{},\"training_loss\":{}}}\n", 10 * i, 2000.0 / i);
    if (i % 100 == 0)
      text += fmt::format("{{\"kind\":\"evaluation\",\"samples\":{},\"accuracy\":{}}}\n", 10 * i,
                          i == 1000 ? 0.75 : 0.5);
  }
  put(run.metrics(), text);
  RunCard card("run", run.root), whole("run", run.root);
  whole.look();
  card.look(4096);
  EXPECT_EQ(card.json()["samples"], 20000);
  EXPECT_EQ(card.json()["accuracy"], 0.5);
  EXPECT_EQ(card.json()["best_accuracy"], nullptr) << "more than its bound was read";
  for (std::size_t i = 0; i < text.size() / 4096; ++i) card.look(4096);
  report::Json read = card.json(), expected = whole.json();
  EXPECT_EQ(read["best_accuracy"], 0.75);
  EXPECT_GT(read["spark"].size(), 20u);
  EXPECT_LT(read["spark"].back(), 1.1);
  read.erase("spark");
  expected.erase("spark");
  EXPECT_EQ(read, expected);
}

TEST_F(RunFoldersTest, AnIndexOfARunHasThatRun) {
  make_run(root_ / "one");
  RunsIndex index({root_ / "one"});
  index.look();
  EXPECT_EQ(index.newest(), "one");
}

// The folder of a run may be another person's.
TEST_F(RunFoldersTest, NoPipeStopsALookAndNoLinkShowsAnotherFile) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  put(root_ / "secret", "the last line of a secret\n");
  fs::create_directory(run.logs());
  fs::create_symlink(root_ / "secret", run.logs() / "coordinator.log");
  EXPECT_EQ(state_of(run).why, "");
  fs::remove(run.logs() / "coordinator.log");
  for (const fs::path& pipe : {run.logs() / "coordinator.log", run.metrics()}) {
    fs::remove(pipe);
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  }
  EXPECT_EQ(state_of(run).why, "");
  RunCard card("run", run.root);
  card.look();
  EXPECT_EQ(card.json()["samples"], 0);
}

TEST_F(RunFoldersTest, TheStateIsWhatTheFolderSays) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  put(run.logs() / "coordinator.log", "begins\nthe disk is full\n");
  EXPECT_EQ(state_of(run).state, RunState::kFailed);
  EXPECT_EQ(state_of(run).why, "the disk is full");
  record_run(run.root);
  EXPECT_EQ(state_of(run).state, RunState::kFinished);
  {
    const auto held = store::lock_file(run.lock());
    ASSERT_TRUE(held.ok() && held->has_value());
    EXPECT_EQ(state_of(run).state, RunState::kStarting);
    put(run.metrics(), "");
    EXPECT_EQ(state_of(run).state, RunState::kTraining);
    // A look takes no lock from the process that leads the run.
    EXPECT_FALSE((*store::lock_file(run.lock())).has_value());
  }
  { auto journal = store::Journal::open(run.journal(), Version(3)); }
  put(run.mark(), "mark");
  for (const fs::path& file : {run.metrics(), run.mark()})
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  EXPECT_EQ(state_of(run).state, RunState::kLost);
  // The clock of the host that leads the run may be a little ahead, but not an hour.
  fs::last_write_time(run.mark(), fs::file_time_type::clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(state_of(run).state, RunState::kTraining);
  fs::last_write_time(run.mark(), fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(state_of(run).state, RunState::kLost);
}

// This holds for any reason that a person gives for the stop.
TEST_F(RunFoldersTest, ARunThatWasStoppedIsNotFinished) {
  using control::FinishCause;
  const auto state = [&](const char* why, FinishCause cause) {
    const fs::path folder = root_ / fmt::format("{} {}", why, static_cast<int>(cause));
    make_run(folder);
    auto journal = store::Journal::open(folder / "journal.sqlite", Version(0));
    (*journal)->on_order(Time{}, control::Finish{why, cause});
    journal->reset();
    const StateOfRun said = state_of(store::RunPaths{folder});
    EXPECT_EQ(said.why, why);
    return said.state;
  };
  EXPECT_EQ(state("every sample of mine is wrong", FinishCause::kStopped), RunState::kStopped);
  EXPECT_EQ(state("the target is reached", FinishCause::kTarget), RunState::kFinished);
  EXPECT_EQ(state("all done", FinishCause::kEverySample), RunState::kFinished);
}

}  // namespace
}  // namespace paceline::ui
