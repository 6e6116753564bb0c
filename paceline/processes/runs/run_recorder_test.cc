// The records of a run that goes on, and of one whose machine's clock is set meanwhile.
#include "paceline/processes/runs/run_recorder.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/processes/runs/off_clock.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 1'700'000'000;  // seconds since 1970

class ClockThatIsSet : public ::testing::Test {
 protected:
  ClockThatIsSet() {
    std::filesystem::create_directories(folder_ / "run");
    config_.dataset_size = config_.total_samples = 10;
  }

  // An attempt whose journal is opened, and whose first release happens, at these times of the clock;
  // seconds.
  void attempt(std::int64_t opened, std::int64_t released, std::int64_t job_time) {
    wall_ = kNow + opened;
    auto books =
        RunRecorder::open(job_, paths_, report::World::kLive, Version(0), [this] { return wall_ * kSecond; });
    ASSERT_TRUE(books.ok()) << books.status();
    (*books)->start(config_, "");
    wall_ = kNow + released;
    const Time at(Duration(job_time * kSecond));
    (*books)->on_fact({at, control::ReplicaJoined{ReplicaId(0), "w0", 8}});
    control::Release release{};
    release.clock = Clock(1);
    (*books)->on_order(at, release);
    ASSERT_TRUE((*books)->flush().ok()) << (*books)->trouble();
    ++attempts_;
  }

  OffClock off() const {
    auto journal = store::JournalReader::open(paths_.journal());
    EXPECT_TRUE(journal.ok()) << journal.status();
    return off_clock(journal->run().value(), attempts_);
  }

  const store::TestDirectory folder_;
  const store::RunPaths paths_{folder_ / "run"};
  const config::JobConfig job_;
  control::ControllerConfig config_;
  std::int64_t wall_ = 0;
  std::int64_t attempts_ = 0;
};

TEST_F(ClockThatIsSet, WhileNobodyTouchesItTimeIsCounted) {
  attempt(0, 3, 0);
  attempt(50, 60, 20);
  EXPECT_EQ(off().starting, std::chrono::seconds(3));
  EXPECT_EQ(off().recovering, std::chrono::seconds(57 - 20));
}

// The run goes on, its records can be read, and no time in them is negative.
TEST_F(ClockThatIsSet, BackAndForthMakesNoTimeNegative) {
  attempt(0, -7200, 0);
  EXPECT_EQ(off().starting, Duration::zero());
  attempt(-86400 * 365, -86400 * 366, 20);
  EXPECT_EQ(off().recovering, Duration::zero());
  attempt(86400, 86401, 30);
  EXPECT_EQ(off().starting, Duration::zero());
  EXPECT_GE(off().recovering, Duration::zero());
}

// A machine without a battery begins in 1970, or before.
TEST_F(ClockThatIsSet, ATimeBefore1970IsNoTime) {
  attempt(-kNow - 100, -kNow - 50, 0);
  attempt(0, 1, 5);
  EXPECT_EQ(off().starting, Duration::zero());
  EXPECT_EQ(off().recovering, Duration::zero());
}

// The list of runs forgets what was measured after more samples than the newest line tells of.
TEST(RunRecorder, AnAttemptCountsOnFromTheSamplesOfItsState) {
  const store::TestDirectory folder;
  std::filesystem::create_directories(folder / "run");
  const store::RunPaths paths{folder / "run"};
  const config::JobConfig job;
  control::ControllerConfig config;
  config.dataset_size = 100;
  config.total_samples = kUnknownTotal;
  auto books = RunRecorder::open(job, paths, report::World::kVirtual, Version(4));
  ASSERT_TRUE(books.ok()) << books.status();
  const control::SampleLedger::Saved ledger{.next = 50, .open = {{20, 30}}, .end = 80};
  (*books)->start(config, "", control::ControllerState{Version(4), ledger, {}});
  const auto numbers = [&](double now) {
    const auto line = nlohmann::json::parse((*books)->status(Time(from_seconds(now)), 80).json());
    return std::vector<double>{line["samples"], line["total_samples"], line["samples_per_s"]};
  };
  EXPECT_THAT(numbers(0), ::testing::ElementsAre(40, 80, 0));

  (*books)->on_fact({Time{}, control::ReplicaJoined{ReplicaId(0), "w0", 10}});
  control::Release release{};
  release.clock = Clock(1);
  (*books)->on_order(Time{}, release);
  control::CommitRecord commit;
  commit.version = Version(5);
  commit.samples = 10;
  commit.nominal = 10;
  commit.committed_before = 40;
  commit.members.push_back({ReplicaId(0), Clock(1), Version(4), Lease{0, 50, 60}});
  (*books)->on_order(Time(from_seconds(2)), commit);
  EXPECT_THAT(numbers(2), ::testing::ElementsAre(50, 80, 5));
}

// A host that leads after another one has the other's journal, and may have an older checkpoint.
TEST(RunRecorder, AnAttemptThatSaidWhatItLostIsCutShortIfTheNextOneWentOnFromANewerCheckpoint) {
  const store::TestDirectory folder;
  std::filesystem::create_directories(folder / "run");
  const store::RunPaths paths{folder / "run"};
  const config::JobConfig job;
  const auto open = [&](std::int64_t from) {
    return RunRecorder::open(job, paths, report::World::kLive, Version(from)).value();
  };
  {
    const auto books = open(0);
    books->start({}, "", {});
    books->on_fact({Time{}, control::ReplicaJoined{ReplicaId(0), "w0", 1}});
    control::CommitRecord commit;
    commit.version = Version(3);
    commit.members.push_back({ReplicaId(0), Clock(1), Version(2), Lease{0, 0, 1}});
    books->on_order(Time{}, commit);
    books->note_lost_commits(0);
    ASSERT_TRUE(books->flush().ok()) << books->trouble();
  }
  open(3);
  const auto newest = [&](std::int64_t from) {
    const auto cut_short = open(from)->cut_short(Version(from)).value();
    return cut_short ? cut_short->version.value() : 0;
  };
  EXPECT_EQ(newest(3), 0);
  EXPECT_EQ(newest(1), 3);
}

}  // namespace
}  // namespace paceline::runs
