// Who writes which shard when servers are lost; and the whole protocol between a coordinator and servers that
// keep shards twice, with a loss at every step of random interleavings, of a server or of the coordinator:
// whatever anybody can have seen is written, and nothing beyond what was ordered.
#include "paceline/coordinator/emergency_checkpoint.h"

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/config/server_parts.h"
#include "paceline/coordinator/commit_quorum.h"
#include "paceline/coordinator/recovery_vote.h"
#include "paceline/store/controller_state_json.h"

namespace paceline::coordinator {
namespace {

using Told = std::vector<std::pair<std::size_t, int>>;  // server, shard

wire::CopyWritten wrote(int shard, const std::string& error = "") {
  wire::CopyWritten message;
  message.set_shard(shard);
  message.set_error(error);
  return message;
}

class EmergencyCheckpointTest : public ::testing::Test {
 protected:
  EmergencyCheckpoint checkpoint(std::vector<bool> here) {
    return {config::shards_kept(3, 2), std::move(here), Version(5), "dir",
            [this](std::size_t server, const wire::ServerOrder& order) {
              EXPECT_EQ(order.write_copy().version(), 5);
              EXPECT_EQ(order.write_copy().dir(), "dir");
              told_.emplace_back(server, order.write_copy().shard());
            }};
  }
  Told told() { return std::exchange(told_, {}); }

 private:
  Told told_;
};

TEST_F(EmergencyCheckpointTest, AShardWhoseServerIsLostIsWrittenByItsNeighbour) {
  EmergencyCheckpoint one = checkpoint({true, false, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_EQ(told(), (Told{{0, 0}, {2, 1}, {2, 2}}));
  EXPECT_TRUE(one.written(2, wrote(1)).ok());
  EXPECT_TRUE(one.written(2, wrote(2)).ok());
  EXPECT_FALSE(one.done());
  EXPECT_TRUE(one.written(0, wrote(0)).ok());
  EXPECT_TRUE(one.done());
}

TEST_F(EmergencyCheckpointTest, WhoeverIsLostMeanwhileIsReplaced) {
  EmergencyCheckpoint one = checkpoint({true, true, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_EQ(told(), (Told{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_TRUE(one.lose(2).ok());
  EXPECT_EQ(told(), (Told{{0, 2}}));
  // What it wrote before it was lost is there.
  EXPECT_TRUE(one.written(1, wrote(1)).ok());
  EXPECT_TRUE(one.lose(1).ok());
  EXPECT_TRUE(told().empty());
}

TEST_F(EmergencyCheckpointTest, WithoutACopyThereIsNoVersion) {
  EXPECT_FALSE(checkpoint({true, false, false}).begin().ok());
  EmergencyCheckpoint one = checkpoint({true, false, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_FALSE(one.lose(2).ok());
}

TEST_F(EmergencyCheckpointTest, WhatOneCannotWriteAnotherWrites) {
  EmergencyCheckpoint one = checkpoint({true, true, true});
  ASSERT_TRUE(one.begin().ok());
  told();
  EXPECT_TRUE(one.written(1, wrote(1, "disk full")).ok());
  EXPECT_EQ(told(), (Told{{2, 1}}));
  EXPECT_TRUE(one.written(1, wrote(1)).ok()) << "what it says does not count any more";
  EXPECT_TRUE(one.written(0, wrote(0)).ok());
  EXPECT_TRUE(one.written(2, wrote(2)).ok());
  EXPECT_FALSE(one.done());
  EXPECT_FALSE(one.written(2, wrote(0)).ok()) << "not its own to write";
  EXPECT_FALSE(one.written(2, wrote(-1)).ok());
  const absl::Status last = one.written(2, wrote(1, "no way there"));
  EXPECT_EQ(last.message(), "no way there; no copy of shard 1 is left");
}

// A server as far as the protocol goes. It cannot prepare a version before all members' hosts have sent it
// their part, which each does once it has prepared the one before.
struct Server {
  bool alive = true;
  std::int64_t ordered = 0, sent = 0, prepared = 0, published = 0;
  std::deque<std::int64_t> orders;    // on their way: commits, or minus the version that is certain
  std::deque<std::int64_t> messages;  // on their way: versions that it has prepared
};

class Protocol {
 public:
  static constexpr std::int64_t kCommits = 4;

  Protocol(int servers, std::uint64_t seed)
      : servers_(static_cast<std::size_t>(servers)), commits_(servers_.size(), Version(0)), rng_(seed) {}

  // One step of somebody. False when nobody can take any.
  bool step() {
    std::vector<std::pair<std::size_t, int>> possible;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      for (int what = 0; what < 4; ++what) {
        if (can(i, what)) possible.emplace_back(i, what);
      }
    }
    if (ordered_ < kCommits) possible.emplace_back(0, 4);
    if (possible.empty()) return false;
    const auto [server, what] = possible[rng_.below(possible.size())];
    take(server, what);
    return true;
  }

  // What was on its way from it may still come, or not.
  void kill(std::size_t server) {
    servers_[server].alive = false;
    servers_[server].messages.resize(rng_.below(servers_[server].messages.size() + 1));
  }

  // The coordinator has noticed. Every order that it sent comes before the next.
  void expect_emergency_checkpoint() {
    std::int64_t seen = 0;
    std::vector<bool> here;
    for (Server& server : servers_) {
      seen = std::max(seen, server.published);
      here.push_back(server.alive);
      while (server.alive && !server.orders.empty()) hear(server);
    }
    const std::int64_t last = commits_.latest().value();
    EXPECT_LE(seen, last);
    EXPECT_EQ(commits_.snapshot() ? commits_.snapshot()->state.version.value() : 0, last);
    std::set<int> written;
    EmergencyCheckpoint checkpoint(config::shards_kept(static_cast<int>(servers_.size()), 2), here,
                                   commits_.latest(), "",
                                   [&](std::size_t server, const wire::ServerOrder& order) {
                                     EXPECT_EQ(servers_[server].published, last);
                                     written.insert(order.write_copy().shard());
                                   });
    EXPECT_TRUE(checkpoint.begin().ok());
    EXPECT_EQ(written.size(), servers_.size());
  }

  // The coordinator is gone, and of what was on its way to each server only the first part comes.
  void expect_vote(std::optional<std::size_t> lost) {
    std::int64_t seen = 0;
    RecoveryVote vote(config::shards_kept(static_cast<int>(servers_.size()), 2), "run 1", Version(ordered_));
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      Server& server = servers_[i];
      for (std::size_t left = rng_.below(server.orders.size() + 1); left > 0; --left) hear(server);
      seen = std::max(seen, server.published);
      if (i == lost || server.prepared == 0) continue;
      EXPECT_TRUE(vote.came(i, ballot_of(i)).ok());
    }
    const auto found = vote.found();
    ASSERT_TRUE(found.ok()) << found.status();
    const std::int64_t version = *found ? (*found)->snapshot.state.version.value() : 0;
    EXPECT_GE(version, seen);
    EXPECT_LE(version, ordered_);
    for (std::size_t i = 0; *found && i < servers_.size(); ++i) {
      EXPECT_TRUE(!(*found)->holders[i] || servers_[i].published == version ||
                  servers_[i].prepared == version);
    }
  }

  std::int64_t certain() const { return commits_.latest().value(); }

 private:
  wire::Ballot ballot_of(std::size_t i) const {
    control::ControllerState state;
    state.version = Version(servers_[i].prepared);
    wire::Ballot ballot;
    ballot.set_attempt("run 1");
    ballot.set_shard(static_cast<std::int32_t>(i));
    ballot.set_shard_count(static_cast<std::int32_t>(servers_.size()));
    ballot.set_copies(2);
    ballot.set_published(servers_[i].published);
    ballot.set_made(servers_[i].prepared);
    ballot.set_state(store::to_text(state));
    return ballot;
  }

  bool can(std::size_t i, int what) const {
    const Server& server = servers_[i];
    if (what == 3) return !server.messages.empty();
    if (!server.alive) return false;
    if (what == 0) return !server.orders.empty();
    if (what == 1) return server.sent < server.ordered && server.sent <= server.prepared;
    const bool all_sent = std::all_of(servers_.begin(), servers_.end(),
                                      [&](const Server& one) { return one.sent > server.prepared; });
    return server.published == server.prepared && server.prepared < server.ordered && all_sent;
  }

  void take(std::size_t i, int what) {
    Server& server = servers_[i];
    switch (what) {
      case 0:
        return hear(server);
      case 1:
        ++server.sent;
        return;
      case 2:
        server.messages.push_back(++server.prepared);
        return;
      case 3: {
        const auto certain = commits_.prepared(i, Version(server.messages.front()));
        server.messages.pop_front();
        ASSERT_TRUE(certain.ok()) << certain.status();
        if (*certain) tell(-(*certain)->value());
        return;
      }
      default: {
        control::ControllerState state;
        state.version = Version(++ordered_);
        commits_.ordered({state}, {});
        tell(ordered_);
      }
    }
  }

  void tell(std::int64_t order) {
    for (Server& server : servers_) server.orders.push_back(order);
  }
  static void hear(Server& server) {
    const std::int64_t order = server.orders.front();
    server.orders.pop_front();
    if (order > 0) {
      server.ordered = order;
      return;
    }
    EXPECT_EQ(server.prepared, -order);
    server.published = -order;
  }

  std::vector<Server> servers_;
  CommitQuorum commits_;
  std::int64_t ordered_ = 0;
  Rng rng_;
};

TEST(Protocol, ALossAtAnyStepLosesNothingThatWasSeen) {
  for (const int servers : {2, 3, 4}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Protocol whole(servers, seed);
      int steps = 0;
      while (whole.step()) ++steps;
      ASSERT_EQ(whole.certain(), Protocol::kCommits);
      for (int at = 0; at <= steps; ++at) {
        Protocol one(servers, seed);
        for (int i = 0; i < at; ++i) one.step();
        one.kill(static_cast<std::size_t>(at) % static_cast<std::size_t>(servers));
        // The coordinator may hear of it late.
        for (int i = 0; i < at % 7; ++i) one.step();
        one.expect_emergency_checkpoint();
      }
    }
  }
}

TEST(Protocol, TheCoordinatorsDeathAtAnyStepLosesNothingThatWasSeenNorDoesAServersAtOnce) {
  for (const int servers : {2, 3, 4}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Protocol whole(servers, seed);
      int steps = 0;
      while (whole.step()) ++steps;
      for (int at = 0; at <= steps; ++at) {
        for (int lost = -1; lost < servers; ++lost) {
          Protocol one(servers, seed);
          for (int i = 0; i < at; ++i) one.step();
          one.expect_vote(lost < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(lost)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::coordinator
