// Run folders on the pages: their lists, their states, and journals that are damaged or half written.
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/processes/runs/run_info.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/tools/ui/publisher.h"
#include "paceline/tools/ui/run_card.h"
#include "paceline/tools/ui/run_follower.h"
#include "paceline/tools/ui/runs_index.h"

namespace paceline::ui {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

void make_run(const fs::path& folder, const std::string& policy = "bsp") {
  put(folder / "job.toml", "name = \"job\"\n[sync]\npolicy = \"" + policy + "\"\n[[device]]\ncount = 4\n");
}

// The journal of a whole small run.
void record_run(const fs::path& folder) {
  auto journal = store::Journal::open(folder / "journal.sqlite", Version(0));
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
  report::run_example(report::uneven_four(), "bsp", **journal);
}

// A browser's page, which notes each event and its time.
class OpenPage final : public Exchange {
 public:
  void answer(Reply) override {}
  void stream() override {}
  void send(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    text_ += bytes;
    const std::size_t at = bytes.find("\"part\":\"");
    if (at == std::string::npos) return;
    const std::size_t begin = at + 8;
    came_[bytes.substr(begin, bytes.find('"', begin) - begin)] = std::chrono::steady_clock::now();
  }
  bool closed() const override { return false; }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  std::set<std::string> parts_since(std::chrono::steady_clock::time_point then) const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> parts;
    for (const auto& [part, at] : came_) {
      if (at >= then) parts.insert(part);
    }
    return parts;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::map<std::string, std::chrono::steady_clock::time_point> came_;
};

// Passes a run on in pieces of `size` facts, a fifth of a second apart.
class Pieces final : public control::RunListener {
 public:
  Pieces(store::Journal& journal, int size) : journal_(journal), size_(size) {}
  void on_fact(const control::Fact& fact) override {
    if (++facts_ % size_ == 0) flush();
    journal_.on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override { journal_.on_order(at, order); }
  void on_evaluated(const control::Evaluated& evaluated) override { journal_.on_evaluated(evaluated); }
  void flush() {
    EXPECT_TRUE(journal_.flush().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }

 private:
  store::Journal& journal_;
  const int size_;
  int facts_ = 0;
};

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

class RunFoldersTest : public ::testing::Test {
 protected:
  store::TestDirectory directory_;
  const fs::path root_ = directory_.path();
};

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

TEST_F(RunFoldersTest, AFollowerShowsTheWholeRun) {
  make_run(root_ / "run");
  RunFollower follower(store::RunPaths{root_ / "run"});
  follower.read();
  EXPECT_EQ(follower.parts().size(), 1u);
  record_run(root_ / "run");
  follower.read();
  const auto parts = follower.parts();
  EXPECT_EQ(parts.at("head").at("samples"), 3200);
  EXPECT_EQ(parts.at("head").at("state"), "finished");
  EXPECT_EQ(parts.at("head").at("trouble"), "");
  EXPECT_EQ(follower.compared().size(), 2u);
  const auto metrics = follower.metrics();
  ASSERT_TRUE(metrics.ok());
  EXPECT_THAT(*metrics, testing::HasSubstr("paceline_committed_samples_total 3200\n"));
  EXPECT_THAT(*metrics, testing::HasSubstr("paceline_attempts_total 1\n"));
}

// This holds for any wall clock of the observer: it may be set, and another host's may be ahead.
TEST_F(RunFoldersTest, TheTimeOfARunGoesOnByASteadyClock) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  put(run.metrics(), "");
  const auto held = store::lock_file(run.lock());
  auto journal = store::Journal::open(run.journal(), Version(0));
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
  ASSERT_TRUE((*journal)->set(runs::released_key(1), "1000000000000000000 0").ok());
  const Time end = report::run_example(report::uneven_four(), "bsp", **journal);
  ASSERT_TRUE((*journal)->flush().ok());
  std::chrono::steady_clock::time_point steady{};
  const std::chrono::system_clock::time_point wall(std::chrono::seconds(1'000'003'000));
  RunFollower follower(run, {.steady = [&] { return steady; }, .wall = [&] { return wall; }});
  follower.read();
  EXPECT_THAT(follower.in_a_line(), testing::HasSubstr(" was made 0.0 s ago"));
  EXPECT_THAT(*follower.metrics(), testing::HasSubstr("paceline_last_commit_timestamp_seconds 1000003000\n"));
  steady += std::chrono::seconds(5);
  follower.read();
  EXPECT_THAT(follower.in_a_line(), testing::HasSubstr(" was made 5.0 s ago"));
  // The record is a little behind the run. The time goes on evenly nevertheless.
  steady += std::chrono::seconds(1);
  (*journal)->note_process({end + from_seconds(4), "coordinator", 1, {}});
  ASSERT_TRUE((*journal)->flush().ok());
  follower.read();
  EXPECT_THAT(follower.in_a_line(), testing::HasSubstr(" was made 6.0 s ago"));
  // An observer who comes to a run that stands still sees how long it has done so.
  (*journal)->note_process({end + from_seconds(40), "coordinator", 1, {}});
  ASSERT_TRUE((*journal)->flush().ok());
  RunFollower late(run, {.steady = [&] { return steady; }, .wall = [&] { return wall; }});
  late.read();
  EXPECT_THAT(late.in_a_line(), testing::HasSubstr(" was made 40.0 s ago"));
  EXPECT_THAT(*late.metrics(), testing::HasSubstr("paceline_last_commit_timestamp_seconds 1000002960\n"));
  // The host of the run slept meanwhile.
  steady += std::chrono::hours(1);
  (*journal)->note_process({end + from_seconds(41), "coordinator", 1, {}});
  ASSERT_TRUE((*journal)->flush().ok());
  follower.read();
  EXPECT_THAT(follower.in_a_line(), testing::HasSubstr(" was made 41.0 s ago"));
}

// Every part of a page that has changed comes, without another change after it. How soon depends on how busy
// the machine is: the publisher rests longer if its work takes longer.
TEST_F(RunFoldersTest, APageHasEveryPartThatHasChangedInTheEnd) {
  make_run(root_ / "run");
  auto journal = store::Journal::open(root_ / "run" / "journal.sqlite", Version(0));
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
  const auto page = std::make_shared<OpenPage>();
  Publisher publisher({.roots = {root_ / "run"}, .token = "", .open_metrics = false});
  publisher.subscribe(page, "run", {"run"});
  // The run comes in pieces, a fifth of a second apart: in the end each part has a version that shows the
  // last piece.
  Pieces pieces(**journal, 12);
  report::run_example(report::uneven_four(), "bsp", pieces);
  // Before the flush: a part may come as soon as the journal has the last piece.
  const auto written = std::chrono::steady_clock::now();
  ASSERT_TRUE((*journal)->flush().ok());
  const std::set<std::string> expected{"curves", "devices", "groups", "head", "lanes", "time"};
  std::set<std::string> told;
  const auto all_told = [&] {
    return std::includes(told.begin(), told.end(), expected.begin(), expected.end());
  };
  while (!all_told() && std::chrono::steady_clock::now() - written < std::chrono::seconds(120)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    told = page->parts_since(written);
  }
  EXPECT_THAT(told, testing::IsSupersetOf(expected));
}

// This holds however often metrics are collected meanwhile.
TEST_F(RunFoldersTest, TheListHasANewRunWhileMetricsAreCollected) {
  make_run(root_ / "one");
  const auto page = std::make_shared<OpenPage>();
  Publisher publisher({.roots = {root_}, .token = "", .open_metrics = true});
  publisher.subscribe(page, "list", {});
  bool there = false;
  for (int i = 0; i < 600 && !there; ++i) {
    if (i == 5) make_run(root_ / "two");
    publisher.health(std::make_shared<OpenPage>());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    there = page->text().find("\"id\":\"two\"") != std::string::npos;
  }
  EXPECT_TRUE(there);
}

TEST_F(RunFoldersTest, CountersGoOnWhenARunGoesBack) {
  make_run(root_ / "run");
  record_run(root_ / "run");
  RunFollower follower(store::RunPaths{root_ / "run"});
  const auto metrics = [&] {
    follower.read();
    return follower.metrics().value();
  };
  EXPECT_THAT(metrics(), testing::HasSubstr("paceline_commits_total 25\n"));
  auto journal = store::Journal::open(root_ / "run/journal.sqlite", Version(5));
  (*journal)->set(runs::went_back_key(1), "server 3 died").IgnoreError();
  (*journal)->note_process({Time{}, "w0", 1234, {}});
  ASSERT_TRUE((*journal)->flush().ok());
  const std::string after = metrics();
  EXPECT_EQ(follower.parts().at("head").at("commits"), 5);
  EXPECT_THAT(after, testing::HasSubstr("paceline_commits_total 25\n"));
  EXPECT_THAT(after, testing::HasSubstr("paceline_attempts_total 2\n"));
  EXPECT_THAT(after, testing::HasSubstr("paceline_restarts_total{reason=\"server # died\"} 1\n"));
  EXPECT_THAT(after, testing::HasSubstr("paceline_process_resident_memory_bytes{process=\"w0\"} 1234\n"));
  EXPECT_EQ(follower.parts().at("memory").at("rows").at(0).at(1), 1234);
}

TEST_F(RunFoldersTest, ADamagedJournalIsALineAndNoCrash) {
  const fs::path run = root_ / "run";
  make_run(run);
  record_run(run);
  const fs::path journal = run / "journal.sqlite";
  std::string whole;
  {
    std::ifstream file(journal, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::size_t complaints = 0;
  const std::size_t count = std::getenv("PACELINE_DAMAGES") ? 3000 : 60;
  for (std::size_t i = 0; i < count; ++i) {
    std::string bytes = whole;
    const std::size_t place = (i * 7919 * 4096 / 60 + i * 13) % bytes.size();
    if (i % 3 == 0)
      bytes.resize(place);
    else
      for (std::size_t k = place; k < std::min(bytes.size(), place + 700); ++k)
        bytes[k] = static_cast<char>(i % 3 == 1 ? 0xff : bytes[k] ^ 0x41);
    put(journal, bytes);
    RunFollower follower(store::RunPaths{run});
    follower.read();
    const auto head = follower.parts().at("head");
    if (head.at("trouble") != "" || head.at("samples") != 3200) ++complaints;
  }
  EXPECT_GT(complaints, 20u);
}

}  // namespace
}  // namespace paceline::ui
