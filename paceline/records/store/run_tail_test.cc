// A journal followed while it grows, compared with the whole journal read at once.
#include "paceline/records/store/run_tail.h"

#include <fstream>
#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"
#include "paceline/records/store/whole_run.h"

namespace paceline::store {
namespace {

class RunTailTest : public ::testing::Test {
 protected:
  absl::Status follow(std::int64_t most = RunTail::kAll) {
    return tail_->read(
        [this](JournalReader&) {
          heard_ = std::make_unique<Recorder>();
          ++begun_;
          return heard_.get();
        },
        most);
  }
  std::vector<std::string> whole() {
    auto reader = JournalReader::open(path_);
    Recorder recorder;
    EXPECT_TRUE(reader.ok() && replay_whole_run(*reader, recorder).ok());
    return recorder.lines;
  }

  TestDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "journal.sqlite";
  std::unique_ptr<RunTail> tail_ = std::make_unique<RunTail>(path_);
  std::unique_ptr<Recorder> heard_;
  int begun_ = 0;
};

TEST_F(RunTailTest, EachReadTellsWhatCameSinceTheOneBefore) {
  const std::vector<Event> events = controller_events("ssp:2", 400);
  auto journal = Journal::open(path_, Version(0));
  ASSERT_TRUE(journal.ok()) << journal.status();
  for (std::size_t i = 0; i < events.size(); ++i) {
    tell(events[i], **journal);
    if (i % 7 != 0) continue;
    ASSERT_TRUE((*journal)->flush().ok());
    ASSERT_TRUE(follow().ok());
    ASSERT_EQ(heard_->lines, whole()) << "after event " << i;
  }
  EXPECT_EQ(begun_, 1);
}

TEST_F(RunTailTest, ARunThatGoesBackIsToldAnew) {
  const std::vector<Event> events = controller_events("bsp", 400);
  for (const std::int64_t from : {0, 2, 1}) {
    auto journal = Journal::open(path_, Version(from));
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (std::size_t i = 0; i < events.size(); i += 5) {
      for (std::size_t k = i; k < std::min(i + 5, events.size()); ++k) tell(events[k], **journal);
      ASSERT_TRUE((*journal)->flush().ok());
      ASSERT_TRUE(follow().ok());
      ASSERT_EQ(heard_->lines, whole()) << "from version " << from << ", after event " << i;
    }
  }
  EXPECT_EQ(begun_, 3);
}

// However the run is cut into reads, all of them together tell the same, and each says how far it is.
TEST_F(RunTailTest, AReadTellsNoMoreThanItsBound) {
  const std::vector<Event> events = controller_events("bsp", 400);
  for (const std::int64_t from : {0, 2, 1, 2, 5}) {
    auto journal = Journal::open(path_, Version(from));
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (const Event& event : events) tell(event, **journal);
  }
  const std::vector<std::string> all = whole();
  for (const std::int64_t most : {1, 7, 100}) {
    tail_ = std::make_unique<RunTail>(path_);
    begun_ = 0;
    double share = 0;
    std::size_t heard = 0;
    do {
      ASSERT_TRUE(follow(most).ok());
      EXPECT_GE(tail_->share(), share);
      // Replicas that leave with their attempt are told beside its events.
      EXPECT_LE(heard_->lines.size(), heard + static_cast<std::size_t>(most) + 20);
      share = tail_->share();
      heard = heard_->lines.size();
      ASSERT_LE(heard, all.size());
    } while (tail_->is_behind());
    EXPECT_EQ(heard_->lines, all) << "at most " << most;
    EXPECT_EQ(begun_, 1);
    EXPECT_EQ(share, 1);
  }
}

// The listener goes on from a copy that has heard nothing of what was lost, whatever the run went back to.
TEST_F(RunTailTest, ARunThatGoesBackToACheckpointIsNotToldFromItsStart) {
  int gone_on = 0;
  const auto copy = [this] { return std::make_shared<Recorder>(*heard_); };
  const auto go_on = [&](JournalReader&, const control::RunListener& from) {
    ++gone_on;
    heard_ = std::make_unique<Recorder>(static_cast<const Recorder&>(from));
    return heard_.get();
  };
  tail_ = std::make_unique<RunTail>(path_, RunTail::Copies{copy, go_on, 1});
  Version newest(0);
  // An attempt goes back by so many versions; the one before the last goes back too far for the two copies.
  for (const int back : {0, 0, 1, 0, 2, 2, 20, 0}) {
    const std::int64_t from = newest.value() - back;
    auto journal = Journal::open(path_, Version(from));
    ASSERT_TRUE(journal.ok()) << journal.status();
    int told = 0;
    for (Event event : controller_events("bsp", 800)) {
      auto* order = std::get_if<std::pair<Time, control::Order>>(&event);
      if (auto* commit = order == nullptr ? nullptr : std::get_if<control::CommitRecord>(&order->second)) {
        newest = commit->version = Version(from + commit->version.value());
        if (newest.value() % 3 == 0) commit->checkpoint.emplace().version = newest;
      }
      tell(event, **journal);
      if (++told % 31 != 0) continue;
      ASSERT_TRUE((*journal)->flush().ok());
      ASSERT_TRUE(follow(40).ok());
    }
    ASSERT_TRUE((*journal)->flush().ok());
    do ASSERT_TRUE(follow(40).ok());
    while (tail_->is_behind());
    ASSERT_EQ(heard_->lines, whole()) << "back by " << back;
    ASSERT_GE(newest, Version(from + 9)) << "too short for this test";
  }
  EXPECT_EQ(begun_, 2);
  EXPECT_EQ(gone_on, 6);
}

TEST_F(RunTailTest, LetsTheWriterCloseTheJournalToASingleFile) {
  {
    auto journal = Journal::open(path_, Version(0));
    tell(controller_events("asp", 200), **journal);
    ASSERT_TRUE((*journal)->flush().ok());
    ASSERT_TRUE(follow().ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_.string() + "-wal"));
  EXPECT_TRUE(follow().ok());
  EXPECT_EQ(heard_->lines, whole());
}

TEST_F(RunTailTest, AfterAnErrorItBeginsAnew) {
  EXPECT_EQ(follow().code(), absl::StatusCode::kNotFound);
  std::ofstream(path_)
      << "no journal at all, but long enough to be looked at by somebody who reads databases";
  EXPECT_FALSE(follow().ok());
  std::filesystem::remove(path_);
  {
    auto journal = Journal::open(path_, Version(0));
    tell(controller_events("asp", 200), **journal);
  }
  EXPECT_TRUE(follow().ok());
  EXPECT_EQ(heard_->lines, whole());
}

TEST_F(RunTailTest, TheReaderSaysHowTheNewestAttemptFinished) {
  const auto finish = [&] {
    const auto reader = JournalReader::open(path_);
    return reader.ok() ? *reader->finish() : std::nullopt;
  };
  {
    auto journal = Journal::open(path_, Version(0));
    (*journal)->on_order(at(5), control::Finish{"all samples are committed"});
  }
  EXPECT_EQ(finish(), control::Finish{"all samples are committed"});
  { auto journal = Journal::open(path_, Version(1)); }
  EXPECT_EQ(finish(), std::nullopt);
}

}  // namespace
}  // namespace paceline::store
