// A run that one host leads and another one keeps, over a real port; keepers that do not answer, and leaders
// that send what no leader sends.
#include "paceline/processes/launch/run_keeper.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/processes/launch/testing/kept_run.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;
using coordinator_process::FileCalls, coordinator_process::RunKeeping;
using ::testing::Contains, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not;
using ::testing::UnorderedElementsAre;

using RunKeeperTest = KeptRun;

// A flushed journal is on the keeper's disk: the test need not wait for anything.
TEST_F(RunKeeperTest, HasAFlushedJournal) {
  const auto host = keeper();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(set(std::to_string(i)).ok());
    ASSERT_EQ(value_in(kept().journal()), std::to_string(i));
  }
  EXPECT_EQ(host->run(), kept().root.string());
  EXPECT_EQ(host->leader()->address, "10.0.0.1:7461");
  EXPECT_EQ(*store::read_file(kept().job(), 100), "the job");
  EXPECT_EQ(*store::read_file(kept().asked(), 100), "as host 1 was asked");
  EXPECT_TRUE(fs::exists(kept().mark()));
  EXPECT_FALSE(store::RunFolder::resume(kept().root).ok()) << "it is in use";
  EXPECT_EQ(keeping_.next_leader(), "10.0.0.2:7461");
  EXPECT_EQ(news_.size(), 0u);
  port_.reset();  // the leader is gone
  host->stop();
  EXPECT_EQ(value_in(kept().journal()), "49");
  EXPECT_TRUE(fs::exists(kept().mark())) << "it was cut short";
  EXPECT_TRUE(store::RunFolder::resume(kept().root).ok());
}

TEST_F(RunKeeperTest, ALargeChangeComesWhole) {
  const auto host = keeper();
  const std::string large(5 << 20, 'x');
  ASSERT_TRUE(set(large).ok());
  EXPECT_EQ(value_in(kept().journal()), large);
}

// The program's description of itself names each tensor.
TEST_F(RunKeeperTest, AModelWithManyTensorsIsKept) {
  const std::string said(6 << 20, 'x');
  ASSERT_TRUE(store::atomic_write(run_.program(), said).ok());
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_EQ(*store::read_file(kept().program(), 64 << 20), said);
}

TEST_F(RunKeeperTest, ARunThatFitsIntoNoMessageIsNotKept) {
  ASSERT_TRUE(store::atomic_write(run_.program(), std::string(40 << 20, 'x')).ok());
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_THAT(news_,
              ElementsAre(HasSubstr("host 1 does not keep a copy of the run (its job.toml and program.json "
                                    "have 40.0 MB, and a message may have 32 MB)")));
}

TEST_F(RunKeeperTest, CheckpointsThatCountAreFetched) {
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  for (const std::string name : {"v000000000010", "v000000000020", "v000000000030"}) {
    keeping_.counted(make_checkpoint(name), {kWeights});
    EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); })) << name;
    EXPECT_EQ(*store::read_file(kept().checkpoints() / name / kWeights, 100), name + " weights");
  }
  EXPECT_TRUE(soon([&] { return !fs::exists(kept().checkpoints() / "v000000000010"); })) << "two are kept";
  EXPECT_TRUE(fs::exists(kept().checkpoints() / "v000000000020"));
}

TEST_F(RunKeeperTest, ACheckpointIsAwaitedWhileItIsFetched) {
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_FALSE(keeping_.awaits_copy()) << "there is none";
  std::promise<void> goes_on;
  const std::string folder = make_checkpoint("v000000000010");
  service_.file = [&, may = goes_on.get_future().share()](auto& call) {
    may.wait();
    return given_->serve(call);
  };
  keeping_.counted(folder, {kWeights});
  EXPECT_TRUE(keeping_.awaits_copy());
  EXPECT_FALSE(fs::exists(kept().checkpoints() / "v000000000010"));
  goes_on.set_value();
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  EXPECT_TRUE(fs::exists(kept().checkpoints() / "v000000000010" / kWeights));
}

// The hosts went on without each other. Then the run is taken up on the other host: this host's own history
// does no harm, and is not lost.
TEST_F(RunKeeperTest, CheckpointsOfAnotherHistoryAreSetAside) {
  for (const std::string name : {"v000000000010", "v000000000020", "v000000000030"}) {
    fs::create_directories(kept().checkpoints() / name);
    ASSERT_TRUE(store::atomic_write(kept().checkpoints() / name / kWeights, "of its own").ok());
    ASSERT_TRUE(store::atomic_write(kept().checkpoints() / name / "state.json", "as it was here").ok());
  }
  {
    const auto own = *store::Journal::open(kept().journal(), Version(0), store::PowerLoss::kNothing, true);
    own->on_order(Time(std::chrono::seconds(1)), control::CommitRecord());
    ASSERT_TRUE(own->set("key", "of its own").ok() && own->flush().ok());
  }
  keeping_.counted(make_checkpoint("v000000000020"), {kWeights, "state.json"});
  bool asked = false;
  service_.file = [&](auto& call) {
    asked = true;
    EXPECT_FALSE(fs::exists(kept().checkpoints() / "v000000000030")) << "the journal is the other history's";
    return given_->serve(call);
  };
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  EXPECT_THAT(*store::names_in(kept().checkpoints()), Not(Contains("v000000000030")));
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  EXPECT_TRUE(asked);
  EXPECT_EQ(*store::read_file(kept().checkpoints() / "v000000000020" / kWeights, 100),
            "v000000000020 weights");
  EXPECT_THAT(*store::names_in(kept().checkpoints()),
              UnorderedElementsAre("v000000000010.set-aside", "v000000000020", "v000000000020.set-aside",
                                   "v000000000030.set-aside"));
  EXPECT_EQ(*store::read_file(kept().checkpoints() / "v000000000020.set-aside" / kWeights, 100),
            "of its own");
  EXPECT_EQ(value_in(kept().journal()), "a");
  EXPECT_EQ(value_in(kept().journal().string() + ".set-aside"), "of its own");
}

// A keeper that comes back has the checkpoint, and does not fetch it again.
TEST_F(RunKeeperTest, ACheckpointThatIsThereIsNotFetchedAgain) {
  keeping_.counted(make_checkpoint("v000000000020"), {kWeights, "state.json"});
  auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  ASSERT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  host.reset();
  ASSERT_TRUE(soon([&] { return keeping_.next_leader().empty(); }));
  service_.file = [&](auto&) { return absl::InternalError("it has that"); };
  host = keeper();
  ASSERT_TRUE(soon([&] {
    EXPECT_TRUE(set("b").ok());
    return !keeping_.next_leader().empty();
  }));
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  EXPECT_THAT(*store::names_in(kept().checkpoints()), ElementsAre("v000000000020"));
}

// The run goes on, whatever happens to the copy.
TEST_F(RunKeeperTest, ACheckpointThatCannotBeKeptIsNotAwaited) {
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  keeping_.counted(make_checkpoint("v000000000010"), {kWeights, "not-there.safetensors"});
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  EXPECT_THAT(*store::names_in(kept().checkpoints()), IsEmpty()) << "nothing half-written is left";
  ASSERT_TRUE(set("b").ok());
  EXPECT_THAT(news_, IsEmpty()) << "another one may follow";
  keeping_.counted(make_checkpoint("v000000000011"), {kWeights, "not-there.safetensors"});
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  for (const char* value : {"b", "c"}) ASSERT_TRUE(set(value).ok());
  EXPECT_THAT(news_,
              ElementsAre(HasSubstr("host 1 cannot fetch the checkpoints of the run (v000000000011: ")));
  keeping_.counted(make_checkpoint("v000000000012"), {kWeights});
  EXPECT_TRUE(soon([&] { return !keeping_.awaits_copy(); }));
  for (const char* value : {"d", "e"}) ASSERT_TRUE(set(value).ok());
  EXPECT_EQ(news_.back(), "host 1 has the newest checkpoint of the run again");
  EXPECT_EQ(news_.size(), 2u);

  RunKeeping nobody({.run = run_,
                     .keeper = HostRank(1),
                     .flush = [] { return absl::OkStatus(); },
                     .take_log = [] { return std::string(); },
                     .news = [](const std::string&) {},
                     .first_patience = std::chrono::milliseconds(50)});
  nobody.counted(make_checkpoint("v000000000020"), {kWeights});
  EXPECT_TRUE(nobody.awaits_copy()) << "the keeper may still come";
  EXPECT_TRUE(soon([&] { return !nobody.awaits_copy(); }));
}

TEST_F(RunKeeperTest, ARunThatHasEndedLeavesNoMark) {
  const auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  keeping_.over();
  EXPECT_FALSE(fs::exists(kept().mark()));
  EXPECT_FALSE(host->run().has_value());
}

// A host that led the run comes back as a follower, and another one keeps the run. Its folder is of an older history.
TEST_F(RunKeeperTest, ACopyFromBeforeIsNotValidOnceAnotherHostKeepsTheRun) {
  ASSERT_TRUE(store::atomic_write(run_.mark(), "led by host 0").ok());
  RunKeeper before(
      {.host = HostRank(0), .address = "10.0.0.1:7461", .runs_dir = directory_ / "disk0", .run = run_.root});
  EXPECT_TRUE(before.run().has_value());
  before.leave();
  EXPECT_FALSE(before.run().has_value());
  EXPECT_FALSE(before.leader().has_value());
  EXPECT_TRUE(fs::exists(run_.mark())) << "started again, it finds the next leader by it";
}

// The next keeper gets the whole journal, whatever the one before had.
TEST_F(RunKeeperTest, AKeeperThatComesBackIsTakenAgain) {
  auto host = keeper();
  ASSERT_TRUE(set("a").ok());
  host.reset();
  ASSERT_TRUE(soon([&] { return keeping_.next_leader().empty(); }));
  ASSERT_TRUE(set("b").ok());
  EXPECT_THAT(news_, ElementsAre(HasSubstr("host 1 does not keep a copy of the run")));
  EXPECT_EQ(value_in(kept().journal()), "a");
  host = keeper();
  ASSERT_TRUE(soon([&] {
    EXPECT_TRUE(set("c").ok());
    return news_.size() == 2;
  }));
  EXPECT_EQ(news_.back(), "host 1 keeps a copy of the run again");
  EXPECT_EQ(value_in(kept().journal()), "c");
}

TEST_F(RunKeeperTest, AnotherHostIsNotTaken) {
  const SpokenKeeper spoken(port_->address());
  wire::KeeperMessage hello;
  hello.mutable_keep()->set_host(2);
  spoken.stream->Write(hello);
  wire::KeepOrder order;
  EXPECT_FALSE(spoken.stream->Read(&order));
  EXPECT_EQ(spoken.stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// The keeper is connected and silent: the run does not wait for it for ever.
TEST_F(RunKeeperTest, AKeeperThatDoesNotAnswerIsGivenUp) {
  auto few = options();
  few.patience = std::chrono::milliseconds(100);
  RunKeeping impatient(few);
  service_.keep = [&](auto& call) { return impatient.serve(call); };
  const SpokenKeeper spoken(port_->address());
  spoken.say_hello();
  ASSERT_TRUE(journal_->set("key", "a").ok());
  ASSERT_TRUE(impatient.flush().ok());
  EXPECT_THAT(news_, ElementsAre(HasSubstr("host 1 does not keep a copy of the run")));
  ASSERT_TRUE(impatient.flush().ok());
  spoken.expect_hung_up_on();
  port_.reset();
}

// This keeper claims to have kept statements that it was never given.
TEST_F(RunKeeperTest, AKeeperThatLiesIsHungUpOn) {
  const SpokenKeeper spoken(port_->address());
  spoken.say_hello();
  wire::KeeperMessage message;
  message.set_kept(1'000'000);
  spoken.say(message);
  spoken.expect_hung_up_on();
  EXPECT_EQ(keeping_.next_leader(), "");
}

// A leader is believed about the run, and about nothing else on this host.
TEST_F(RunKeeperTest, AFolderElsewhereIsNotWrittenTo) {
  std::atomic<bool> heard = false;
  for (const std::string& name :
       {std::string("../elsewhere"), std::string(""), std::string(".hidden"), std::string("a/b")}) {
    heard = false;
    service_.keep = [&](RunKeeping::Call& call) {
      wire::KeeperMessage hello;
      call.read(hello);
      wire::KeepOrder order;
      order.mutable_run()->set_name(name);
      call.write(order);
      order.set_journal("no journal");
      call.write(order);
      order.set_number(1);
      order.set_journal_whole(0);
      call.write(order);
      wire::KeeperMessage answer;
      EXPECT_TRUE(call.read(answer) && answer.has_trouble()) << name;
      EXPECT_FALSE(call.read(answer)) << name;
      heard = true;
      return absl::OkStatus();
    };
    const auto host = keeper();
    EXPECT_TRUE(soon([&] { return heard.load(); }));
    EXPECT_FALSE(host->run().has_value());
  }
  EXPECT_FALSE(fs::exists(directory_ / "elsewhere"));
  EXPECT_TRUE(fs::is_empty(directory_ / "disk1"));
}

}  // namespace
}  // namespace paceline::launch
