// The copy of a large journal, which takes long: training goes on meanwhile, and the keeper is given up only if
// it stands still.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/processes/launch/testing/kept_run.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/journal_copy.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;
using coordinator_process::RunKeeping;
using ::testing::ElementsAre, ::testing::HasSubstr;

constexpr std::size_t kMegabyte = 1 << 20;

// A leader with a clock that the test sets, and a keeper with messages that the test sends.
class RunKeeperCopyTest : public KeptRun {
 protected:
  RunKeeperCopyTest() {
    service_.keep = [this](auto& call) { return leading_.serve(call); };
    spoken_ = std::make_unique<SpokenKeeper>(port_->address());  // the keeper calls at once
  }
  ~RunKeeperCopyTest() override { port_.reset(); }

  RunKeeping::Options patient() {
    auto options = this->options();
    options.patience = std::chrono::minutes(30);
    options.copy_patience = std::chrono::seconds(0);
    options.most_waiting = 2 * kMegabyte;
    options.now = [this] { return std::chrono::steady_clock::now() + std::chrono::minutes(ahead_); };
    return options;
  }
  absl::Status lead(const std::string& value) {
    PACELINE_RETURN_IF_ERROR(journal_->set("key", value));
    return leading_.flush();
  }
  // The keeper has come, and the leader has begun to send it the journal.
  void begin() {
    spoken_->say_hello();
    for (const char* value : {"a", "b"}) ASSERT_TRUE(lead(value).ok());
    ASSERT_THAT(news_, ElementsAre(HasSubstr("yet, because copying the journal takes long: if this host")));
  }
  // Reads the run and the whole journal.
  void read_journal() {
    wire::KeepOrder order;
    ASSERT_TRUE(spoken_->stream->Read(&order) && order.has_run());
    std::uint32_t crc = 0;
    while (spoken_->stream->Read(&order) && order.has_journal())
      crc = store::crc32_after(order.journal().data(), order.journal().size(), crc);
    ASSERT_TRUE(order.has_journal_whole());
    EXPECT_EQ(order.journal_whole(), crc);
    EXPECT_EQ(order.number(), 1);
  }
  void say_kept(std::int64_t number) {
    wire::KeeperMessage message;
    message.set_kept(number);
    spoken_->say(message);
  }

  std::atomic<int> ahead_ = 0;  // the minutes by which the leader's clock is ahead
  RunKeeping leading_{patient()};
  std::unique_ptr<SpokenKeeper> spoken_;
};

TEST_F(RunKeeperCopyTest, TrainingGoesOnUntilTheKeeperIsHere) {
  begin();
  constexpr int kMany = 200;
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(lead(std::to_string(i)).ok());
  read_journal();
  EXPECT_EQ(leading_.next_leader(), "");
  say_kept(1);
  ASSERT_TRUE(soon([&] { return !leading_.next_leader().empty(); })) << "it could lead";
  ASSERT_TRUE(lead("also without the changes that came meanwhile").ok());
  EXPECT_EQ(news_.size(), 1u);
  std::atomic<std::int64_t> kept = 1;
  std::thread keeps([&] {
    for (wire::KeepOrder order; spoken_->stream->Read(&order);) {
      if (order.number() > 0) say_kept(kept = order.number());
    }
  });
  EXPECT_TRUE(soon([&] {
    EXPECT_TRUE(lead("again and again").ok());
    return news_.size() == 2;
  }));
  EXPECT_EQ(news_.back(), "host 1 keeps a copy of the run again");
  const std::int64_t before = kept;
  EXPECT_GT(before, kMany);
  EXPECT_TRUE(lead("waited for").ok());
  EXPECT_EQ(kept, before + 1) << "nothing is on the leader's host alone";
  port_.reset();
  keeps.join();
}

TEST_F(RunKeeperCopyTest, AKeeperThatGetsOnIsNotGivenUp) {
  begin();
  read_journal();
  // People are told of these checkpoints, so the test sees how far the leader has listened.
  wire::KeeperMessage goes_on, fetched;
  goes_on.set_fetching(true);
  for (const std::size_t lines : {2, 3, 4}) {
    ahead_ += 20;
    spoken_->say(goes_on);
    fetched.mutable_fetched()->set_error(lines % 2 == 0 ? "a full disk" : "");
    for (int i = 0; i < 2; ++i) spoken_->say(fetched);
    ASSERT_TRUE(soon([&] { return leading_.flush().ok() && news_.size() == lines; })) << news_.back();
    EXPECT_THAT(news_.back(), HasSubstr(lines % 2 == 0 ? "cannot fetch" : "has the newest checkpoint"));
  }
  say_kept(1);
  EXPECT_TRUE(soon([&] { return !leading_.next_leader().empty(); }));
}

TEST_F(RunKeeperCopyTest, AKeeperThatStandsStillIsGivenUp) {
  begin();
  read_journal();
  ahead_ += 31;
  leading_.look();
  spoken_->expect_hung_up_on();
  ASSERT_TRUE(lead("c").ok());
  EXPECT_THAT(news_.back(),
              HasSubstr("host 1 does not keep a copy of the run (it has not answered for 1800 s): "
                        "if this host is lost now"));
}

// The leader is in the middle of the journal when it gives up the keeper.
TEST_F(RunKeeperCopyTest, NoPartIsSentAsTheWholeJournal) {
  ASSERT_TRUE(journal_->set("large", std::string(32 * kMegabyte, 'x')).ok());
  begin();
  EXPECT_TRUE(soon([&] {
    ahead_ += 31;
    EXPECT_TRUE(leading_.flush().ok());
    return news_.size() == 2;
  }));
  EXPECT_THAT(news_.back(), HasSubstr("it has not answered"));
  for (wire::KeepOrder order; spoken_->stream->Read(&order);) EXPECT_FALSE(order.has_journal_whole());
  EXPECT_NE(spoken_->stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(RunKeeperCopyTest, AKeeperThatFallsTooFarBehindIsGivenUp) {
  ASSERT_TRUE(journal_->set("large", std::string(32 * kMegabyte, 'x')).ok());
  begin();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(lead(std::string(kMegabyte, 'y')).ok());
  EXPECT_THAT(news_.back(), HasSubstr("(more than 2 MB of changes came while it copied the journal)"));
}

TEST_F(RunKeeperCopyTest, ACheckpointIsNotAwaitedForAsLongAsTheJournalTakes) {
  begin();
  leading_.counted(make_checkpoint("v000000000010"), {kWeights});
  EXPECT_FALSE(leading_.awaits_copy());
  read_journal();
  say_kept(1);
  ASSERT_TRUE(soon([&] { return !leading_.next_leader().empty(); }));
  EXPECT_TRUE(leading_.awaits_copy()) << "it fetches it now";
}

// The rest is between real keepers and leaders.

TEST_F(RunKeeperCopyTest, TheJournalsLogDoesNotGrow) {
  service_.keep = [this](auto& call) { return keeping_.serve(call); };
  const auto host = keeper();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(set(std::string(kMegabyte / 10, 'x')).ok());
  EXPECT_NE(keeping_.next_leader(), "");
  EXPECT_LT(fs::file_size(run_.journal().string() + "-wal"), 8 * kMegabyte);
}

TEST_F(RunKeeperCopyTest, PeopleAreToldWhyTheJournalCannotBePassedOn) {
  service_.keep = [this](auto& call) { return keeping_.serve(call); };
  constexpr int kTries = 100;
  const auto in_the_way = [&](int number) { return store::passing_snapshot(run_.journal(), number); };
  for (int i = 1; i <= kTries; ++i) fs::create_directory(in_the_way(i));
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_THAT(news_, ElementsAre(HasSubstr("host 1 does not keep a copy of the run (")));
  EXPECT_THAT(news_.back(), HasSubstr("journal.sqlite.to-keep-1: not a regular file"));
  for (int i = 1; i <= kTries; ++i) fs::remove(in_the_way(i));
  EXPECT_TRUE(soon([&] {
    EXPECT_TRUE(set("b").ok());
    return news_.size() == 2;
  }));
  EXPECT_EQ(news_.back(), "host 1 keeps a copy of the run again");
}

// Another process has the journal here locked, so the new one cannot take its place yet.
TEST_F(RunKeeperCopyTest, SignsOfLifeComeWhileTheJournalIsPutInItsPlace) {
  const fs::path passed = directory_ / "passed.sqlite";
  ASSERT_TRUE(journal_->set("key", "new").ok() && journal_->flush().ok());
  ASSERT_TRUE((*store::JournalSnapshot::take(run_.journal())).write(passed).ok());
  fs::create_directories(kept().root);
  {
    const auto own = *store::Journal::open(kept().journal(), Version(0), store::PowerLoss::kNothing, true);
    ASSERT_TRUE(own->set("key", "old").ok() && own->flush().ok());
  }
  std::optional<store::Database> locked =
      *store::Database::open(kept().journal(), store::Database::Mode::kWrite);
  ASSERT_TRUE(locked->execute("BEGIN EXCLUSIVE").ok());
  std::atomic<bool> heard = false;
  service_.keep = [&](RunKeeping::Call& call) {
    wire::KeeperMessage answer;
    EXPECT_TRUE(call.read(answer) && answer.has_keep());
    wire::KeepOrder order;
    order.mutable_run()->set_name(kRun);
    call.write(order);
    order.set_journal(*store::read_file(passed, 100 * kMegabyte));
    call.write(order);
    order.set_journal_whole(store::crc32_after(order.journal().data(), order.journal().size(), 0));
    order.set_number(1);
    call.write(order);
    EXPECT_TRUE(call.read(answer) && answer.has_fetching());
    locked.reset();
    while (call.read(answer) && answer.has_fetching()) {
    }
    EXPECT_EQ(answer.kept(), 1);
    heard = true;
    return absl::OkStatus();
  };
  const auto host = keeper();
  EXPECT_TRUE(soon([&] { return heard.load(); }));
  port_.reset();
  EXPECT_EQ(value_in(kept().journal()), "new");
}

TEST_F(RunKeeperCopyTest, WhatAKilledKeeperLeftIsRemoved) {
  service_.keep = [this](auto& call) { return keeping_.serve(call); };
  fs::create_directories(kept().root);
  const std::string journal = kept().journal().string();
  const std::string others = kept().report().string() + ".partial-01234567";
  for (const std::string& file : {journal + ".partial-01234567", journal + ".to-keep-3", others})
    ASSERT_TRUE(store::atomic_write(file, "left over").ok());
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_EQ(value_in(kept().journal()), "a");
  EXPECT_FALSE(fs::exists(journal + ".partial-01234567"));
  EXPECT_FALSE(fs::exists(journal + ".to-keep-3"));
  EXPECT_TRUE(fs::exists(others)) << "another process may be writing it";
}

}  // namespace
}  // namespace paceline::launch
