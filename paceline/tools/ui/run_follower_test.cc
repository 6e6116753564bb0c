// One run, followed while it trains, resumed, or damaged.
#include "paceline/tools/ui/run_follower.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <variant>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/tools/ui/testing/run_folders.h"

namespace paceline::ui {
namespace {

using RunFollowerTest = RunFoldersTest;

TEST_F(RunFollowerTest, AFollowerShowsTheWholeRun) {
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

TEST_F(RunFollowerTest, AFollowerThatIsNotAtTheEndYetSaysHowFarItIs) {
  make_run(root_ / "run");
  record_run(root_ / "run");
  RunFollower whole(store::RunPaths{root_ / "run"}), follower(store::RunPaths{root_ / "run"});
  whole.read();
  follower.read(100);
  EXPECT_TRUE(follower.is_behind());
  EXPECT_THAT(follower.reading(), testing::MatchesRegex("reading the run: [1-9][0-9]? %"));
  EXPECT_EQ(follower.parts().size(), 1u);
  EXPECT_EQ(follower.parts().at("head").at("holds_back"), follower.reading());
  EXPECT_EQ(follower.metrics().status().message(), follower.reading());
  EXPECT_THAT(follower.in_a_line(), testing::EndsWith("; " + follower.reading()));
  while (follower.is_behind()) follower.read(100);
  EXPECT_EQ(follower.reading(), "");
  EXPECT_EQ(follower.parts(), whole.parts());
  EXPECT_EQ(*follower.metrics(), *whole.metrics());
}

// This holds for any wall clock of the observer: it may be set, and another host's may be ahead.
TEST_F(RunFollowerTest, TheTimeOfARunGoesOnByASteadyClock) {
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

// Has a checkpoint in every fifth commit.
struct Checkpoints final : control::RunListener {
  explicit Checkpoints(control::RunListener& run) : next(run) {}
  void on_fact(const control::Fact& fact) override { next.on_fact(fact); }
  void on_order(Time at, const control::Order& order) override {
    control::Order told = order;
    auto* commit = std::get_if<control::CommitRecord>(&told);
    if (commit != nullptr && commit->version.value() % 5 == 0)
      commit->checkpoint.emplace().version = commit->version;
    next.on_order(at, told);
  }
  void on_evaluated(const control::Evaluated& evaluated) override { next.on_evaluated(evaluated); }

  control::RunListener& next;
};

TEST_F(RunFollowerTest, ARunThatWentBackIsShownAsIfItWereReadFromItsStart) {
  const store::RunPaths run{root_ / "run"};
  make_run(run.root);
  {
    auto journal = store::Journal::open(run.journal(), Version(0));
    ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
    Checkpoints checkpoints(**journal);
    report::run_example(report::uneven_four(), "bsp", checkpoints);
  }
  RunFollower follower(run, {}, 1);
  follower.read();
  EXPECT_EQ(follower.parts().at("head").at("commits"), 25);
  for (const int from : {25, 23, 20}) {
    {
      auto journal = store::Journal::open(run.journal(), Version(from));
      for (int i = 0; i < 4; ++i)
        (*journal)->on_fact(
            {Time(from_seconds(100)), control::ReplicaJoined{ReplicaId(i), fmt::format("w{}", i), 32}});
    }
    follower.read(10);
    EXPECT_THAT(follower.reading(), testing::MatchesRegex("reading the run: [6-9][0-9] %")) << from;
    while (follower.is_behind()) follower.read(10);
    RunFollower fresh(run);
    fresh.read();
    EXPECT_EQ(follower.parts(), fresh.parts()) << from;
    EXPECT_EQ(follower.parts().at("head").at("commits"), from);
    EXPECT_EQ(follower.parts().at("head").at("attempts"), fresh.parts().at("head").at("attempts"));
  }
}

TEST_F(RunFollowerTest, CountersGoOnWhenARunGoesBack) {
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

TEST_F(RunFollowerTest, ADamagedJournalIsALineAndNoCrash) {
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
