// Tests of what a server does and when: with shards kept once, and twice; against every order of orders; and
// against a coordinator that is wrong.
#include "paceline/processes/server/commit_log.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

wire::ServerOrder apply(std::int64_t version) {
  wire::ServerOrder order;
  order.mutable_apply()->set_version(version);
  order.mutable_apply()->set_state(fmt::format("state {}", version));
  order.mutable_apply()->set_elapsed_ns(10 * version);
  return order;
}
wire::ServerOrder certain(std::int64_t version) {
  wire::ServerOrder order;
  order.mutable_publish()->set_version(version);
  return order;
}
wire::ServerOrder keep(std::int64_t version) {
  wire::ServerOrder order;
  order.mutable_keep()->set_version(version);
  return order;
}
wire::ServerOrder unmap(std::int32_t replica) {
  wire::ServerOrder order;
  order.mutable_unmap_gradient()->set_replica(replica);
  return order;
}
wire::ServerOrder map(std::int32_t replica) {
  wire::ServerOrder order;
  order.mutable_map_gradient()->set_replica(replica);
  return order;
}
wire::ServerOrder send_early(std::int64_t number) {
  wire::ServerOrder order;
  order.mutable_send_early()->set_number(number);
  return order;
}
wire::ServerOrder write_copy(std::int64_t version) {
  wire::ServerOrder order;
  order.mutable_write_copy()->set_version(version);
  order.mutable_write_copy()->set_shard(1);
  order.mutable_write_copy()->set_dir("dir");
  return order;
}

std::string in_words(const Action& action) {
  if (const auto* one = std::get_if<Make>(&action)) return fmt::format("make {}", one->commit.version());
  if (const auto* one = std::get_if<Prepare>(&action))
    return fmt::format("prepare {}", one->commit.version());
  if (const auto* one = std::get_if<SendAhead>(&action)) return fmt::format("send {}", one->commit.version());
  if (const auto* one = std::get_if<Publish>(&action)) return fmt::format("publish {}", one->version);
  if (const auto* one = std::get_if<WriteCopy>(&action))
    return fmt::format("write {} of {} to {}{}", one->version, one->shard, one->dir,
                       one->publish ? " at last" : "");
  if (const auto* one = std::get_if<SendMessage>(&action)) {
    return one->message.has_applied() ? fmt::format("say applied {}", one->message.applied().version())
                                      : fmt::format("say prepared {}", one->message.prepared().version());
  }
  const wire::ServerOrder& order = std::get<CarryOut>(action).order;
  return order.has_keep()           ? fmt::format("keep {}", order.keep().version())
         : order.has_send_early()   ? fmt::format("send early {}", order.send_early().number())
         : order.has_map_gradient() ? "map"
                                    : "unmap";
}

using Lines = std::vector<std::string>;
Lines in_words(const Actions& actions) {
  Lines lines;
  for (const Action& action : actions) lines.push_back(in_words(action));
  return lines;
}

CommitLog started(int copies, bool announce = false, std::int64_t version = 0) {
  wire::ServerStart start;
  start.set_attempt("run 1");
  start.set_shard(1);
  start.set_shard_count(3);
  start.set_copies(copies);
  start.set_announce(announce);
  start.set_version(version);
  CommitLog log;
  log.start(start);
  return log;
}
Lines take(CommitLog& log, const wire::ServerOrder& order) {
  auto actions = log.take(order);
  EXPECT_TRUE(actions.ok()) << actions.status();
  return actions.ok() ? in_words(*actions) : Lines{};
}
Lines prepared(CommitLog& log, std::int64_t version) {
  return in_words(log.prepared(apply(version).apply()));
}

TEST(CommitLog, KeptOnceACommitIsMadeAtOnce) {
  CommitLog log = started(1, true);
  EXPECT_THAT(take(log, apply(1)), ElementsAre("make 1"));
  EXPECT_THAT(in_words(log.made(Version(1))), ElementsAre("say applied 1"));
  EXPECT_THAT(take(log, keep(1)), ElementsAre("keep 1"));
  EXPECT_THAT(take(log, send_early(1)), ElementsAre("send early 1"));
  EXPECT_THAT(in_words(started(1).made(Version(1))), IsEmpty()) << "nobody wants to hear it";
  EXPECT_FALSE(log.ballot());
  EXPECT_FALSE(log.cut_off());
}

TEST(CommitLog, KeptTwiceItIsPublishedOnceItIsCertain) {
  CommitLog log = started(2, true);
  EXPECT_THAT(take(log, apply(1)), ElementsAre("prepare 1"));
  EXPECT_THAT(prepared(log, 1), ElementsAre("say prepared 1"));
  EXPECT_THAT(take(log, certain(1)), ElementsAre("publish 1", "say applied 1"));
}

// An order that has a turn waits for it; one that has none does not.
TEST(CommitLog, OrdersComeInTheirTurn) {
  CommitLog log = started(2);
  take(log, apply(1));
  prepared(log, 1);
  EXPECT_THAT(take(log, keep(1)), IsEmpty());
  EXPECT_THAT(take(log, apply(2)), ElementsAre("send 2"));
  EXPECT_THAT(take(log, unmap(4)), ElementsAre("send 2"));
  EXPECT_THAT(take(log, map(5)), ElementsAre("map"));
  EXPECT_THAT(take(log, send_early(1)), ElementsAre("send 2"));
  EXPECT_THAT(take(log, apply(3)), ElementsAre("send 2"));
  EXPECT_THAT(take(log, certain(1)), ElementsAre("publish 1", "keep 1", "prepare 2"));
  EXPECT_THAT(prepared(log, 2), ElementsAre("say prepared 2", "send 3"));
  EXPECT_THAT(take(log, certain(2)), ElementsAre("publish 2", "unmap", "send early 1", "prepare 3"));
}

TEST(CommitLog, ACopyIsOfWhatIsPreparedOrPublished) {
  for (const bool was_certain : {true, false}) {
    CommitLog log = started(2);
    take(log, apply(1));
    prepared(log, 1);
    take(log, apply(2));
    if (was_certain) take(log, certain(1));
    EXPECT_THAT(take(log, write_copy(1)),
                ElementsAre(was_certain ? "write 1 of 1 to dir" : "write 1 of 1 to dir at last"));
    EXPECT_THAT(take(log, apply(3)), IsEmpty()) << "nothing is made any more";
    EXPECT_EQ(log.ballot()->published(), 1);
  }
}

// The coordinator may have heard of both servers before the connection between them ended.
TEST(CommitLog, CutOffItStillPublishesWhatIsCertain) {
  CommitLog log = started(2);
  take(log, apply(1));
  prepared(log, 1);
  take(log, apply(2));
  EXPECT_TRUE(log.cut_off());
  EXPECT_THAT(take(log, certain(1)), ElementsAre("publish 1"));
  EXPECT_THAT(take(log, apply(3)), IsEmpty());
  EXPECT_EQ(log.ballot()->made(), 1);
}

TEST(CommitLog, TheBallotOutlivesTheSession) {
  CommitLog log = started(2, false, 7);
  EXPECT_FALSE(log.ballot()) << "a checkpoint has it";
  take(log, apply(8));
  EXPECT_FALSE(log.ballot()) << "it is not made";
  prepared(log, 8);
  take(log, apply(9));
  log.new_session();
  const wire::Ballot ballot = *log.ballot();
  EXPECT_EQ(ballot.attempt(), "run 1");
  EXPECT_EQ(ballot.shard(), 1);
  EXPECT_EQ(ballot.shard_count(), 3);
  EXPECT_EQ(ballot.copies(), 2);
  EXPECT_EQ(ballot.published(), 7);
  EXPECT_EQ(ballot.made(), 8);
  EXPECT_EQ(ballot.state(), "state 8");
  EXPECT_EQ(ballot.elapsed_ns(), 80);
  EXPECT_THAT(take(log, write_copy(8)), ElementsAre("write 8 of 1 to dir at last")) << "before any start";
  EXPECT_EQ(log.ballot()->published(), 8);
}

TEST(CommitLog, ACoordinatorThatIsWrongIsTold) {
  CommitLog log;
  EXPECT_FALSE(log.take(apply(1)).ok());
  EXPECT_FALSE(log.take(write_copy(1)).ok());
  log = started(2);
  EXPECT_FALSE(log.take(certain(1)).ok());
  take(log, apply(1));
  prepared(log, 1);
  EXPECT_FALSE(log.take(certain(2)).ok());
  EXPECT_FALSE(log.take(certain(0)).ok());
  EXPECT_TRUE(log.take(certain(1)).ok());
  EXPECT_FALSE(log.take(certain(1)).ok()) << "twice";
}

// Whatever comes between: versions are prepared and published in their order, each once, and what has a turn
// is carried out after all commits that were ordered before it and before all that were ordered after it.
TEST(CommitLog, RandomOrdersComeOutInTheirTurn) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    CommitLog log = started(2);
    std::int64_t ordered = 0, certain_version = 0;
    std::vector<std::string> told, done;  // "commit 1", "keep 1"
    const auto note = [&](const Lines& lines) {
      std::vector<std::int64_t> to_prepare;
      for (const std::string& line : lines) {
        if (line.starts_with("prepare")) done.push_back("commit" + line.substr(7));
        if (line.starts_with("keep")) done.push_back(line);
      }
      return !lines.empty() && lines.back().starts_with("prepare");
    };
    std::int64_t made = 0;
    for (int step = 0; step < 30 || made < ordered || certain_version < made; ++step) {
      const bool may_order = step < 30;
      if (may_order && rng.below(3) == 0) {
        told.push_back(fmt::format("commit {}", ++ordered));
        if (note(take(log, apply(ordered)))) prepared(log, ++made);
      } else if (may_order && rng.below(2) == 0) {
        told.push_back(fmt::format("keep {}", step));
        note(take(log, keep(step)));
      } else if (certain_version < made) {
        if (note(take(log, certain(++certain_version)))) prepared(log, ++made);
      }
    }
    ASSERT_EQ(done, told) << seed;
  }
}

}  // namespace
}  // namespace paceline::server
