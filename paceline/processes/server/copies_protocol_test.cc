// The whole protocol between a coordinator and the commit logs of servers that keep shards twice, with a loss at every
// step of random interleavings, of a server or of the coordinator: every version that a process can have seen is
// written, and nothing beyond the orders.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/coordinator/commit_quorum.h"
#include "paceline/decisions/coordinator/emergency_checkpoint.h"
#include "paceline/decisions/coordinator/recovery_vote.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/wire/coordinator_messages.h"
#include "paceline/formats/wire/coordinator_orders.h"
#include "paceline/processes/server/commit_log.h"
#include "paceline/records/store/controller_state_json.h"

namespace paceline::server {
namespace {

using coordinator::CommitQuorum;
using coordinator::EmergencyCheckpoint;
using coordinator::RecoveryVote;

// A server as far as the protocol goes: the commit log of a live one, and how far its work has come. It
// cannot prepare a version before all members' hosts have sent it their part.
struct Server {
  bool alive = true;
  server::CommitLog log;
  std::int64_t to_send = 0, sent = 0, published = 0;  // versions
  std::optional<wire::Apply> preparing;               // the log waits for it
  std::deque<wire::ServerOrder> orders;               // orders on their way
  std::deque<std::int64_t> messages;                  // versions that it has prepared, on their way
};

wire::ServerOrder write_copy(std::int64_t version, int shard) {
  wire::ServerOrder order;
  order.mutable_write_copy()->set_version(version);
  order.mutable_write_copy()->set_shard(shard);
  return order;
}

coordinator::Ballot as_coordinator_reads(const wire::Ballot& ballot) {
  wire::ServerMessage message;
  *message.mutable_hello()->mutable_ballot() = ballot;
  return std::get<coordinator::ServerHello>(wire::from_wire(message).what).ballot;
}

class Protocol {
 public:
  static constexpr std::int64_t kCommits = 4;

  Protocol(int servers, std::uint64_t seed)
      : servers_(static_cast<std::size_t>(servers)), commits_(servers_.size(), Version(0)), rng_(seed) {
    for (const ServerId server : servers_.ids()) {
      wire::ServerStart start;
      start.set_attempt("run 1");
      start.set_shard(server.value());
      start.set_shard_count(servers);
      start.set_copies(2);
      servers_[server].log.start(start);
    }
  }

  // One step of the coordinator or a server. False when none can take any.
  bool step() {
    std::vector<std::pair<ServerId, int>> possible;
    for (const ServerId i : servers_.ids()) {
      for (int what = 0; what < 4; ++what) {
        if (can(i, what)) possible.emplace_back(i, what);
      }
    }
    if (ordered_ < kCommits) possible.emplace_back(ServerId(0), 4);
    if (possible.empty()) return false;
    const auto [server, what] = possible[rng_.below(possible.size())];
    take(server, what);
    return true;
  }

  // The messages on their way from the server may still come, or not.
  void kill(ServerId server) {
    servers_[server].alive = false;
    servers_[server].messages.resize(rng_.below(servers_[server].messages.size() + 1));
  }

  // The coordinator has noticed. Every earlier order comes before the next. A commit that is being prepared
  // fails, because the lost server will not send its part.
  void expect_emergency_checkpoint() {
    std::int64_t seen = 0;
    IdVector<ServerId, bool> here;
    for (Server& server : servers_) {
      seen = std::max(seen, server.published);
      here.push_back(server.alive);
      if (!server.alive) continue;
      server.preparing.reset();
      EXPECT_TRUE(server.log.cut_off());
      while (!server.orders.empty()) hear(server);
    }
    const std::int64_t last = commits_.latest().value();
    EXPECT_LE(seen, last);
    EXPECT_EQ(commits_.snapshot() ? commits_.snapshot()->state.version.value() : 0, last);
    std::set<int> written;
    EmergencyCheckpoint checkpoint(coordinator::shards_kept(static_cast<int>(servers_.size()), 2), here,
                                   commits_.latest(), "",
                                   [&](ServerId server, const coordinator::WriteCopy& order) {
                                     EXPECT_FALSE(writes(servers_[server], wire::to_wire(order)).publish);
                                     EXPECT_EQ(servers_[server].published, last);
                                     written.insert(order.shard.value());
                                   });
    EXPECT_TRUE(checkpoint.begin().ok());
    EXPECT_EQ(written.size(), servers_.size());
  }

  // The coordinator is gone, and of what was on its way to each server only the first part comes.
  void expect_vote(std::optional<ServerId> lost) {
    std::int64_t seen = 0;
    RecoveryVote vote(coordinator::shards_kept(static_cast<int>(servers_.size()), 2), "run 1",
                      Version(ordered_), store::controller_state_from_text);
    for (const ServerId i : servers_.ids()) {
      Server& server = servers_[i];
      for (std::size_t left = rng_.below(server.orders.size() + 1); left > 0 && can(i, 0); --left)
        hear(server);
      server.log.new_session();
      seen = std::max(seen, server.published);
      const auto ballot = server.log.ballot();
      if (i == lost || !ballot) continue;
      EXPECT_TRUE(vote.came(i, as_coordinator_reads(*ballot)).ok());
    }
    const auto found = vote.found();
    ASSERT_TRUE(found.ok()) << found.status();
    const std::int64_t version = *found ? (*found)->snapshot.state.version.value() : 0;
    EXPECT_GE(version, seen);
    EXPECT_LE(version, ordered_);
    for (const ServerId i : servers_.ids()) {
      if (!*found || !(*found)->holders[i]) continue;
      Server& server = servers_[i];
      const bool publish = writes(server, write_copy(version, i.value())).publish;
      EXPECT_EQ(publish ? server.published + 1 : server.published, version);
      EXPECT_EQ(server.log.ballot()->published(), version);
    }
  }

  std::int64_t certain() const { return commits_.latest().value(); }

 private:
  bool can(ServerId i, int what) const {
    const Server& server = servers_[i];
    if (what == 3) return !server.messages.empty();
    if (!server.alive) return false;
    if (what == 0) return !server.orders.empty() && !server.preparing;
    if (what == 1) return server.sent < server.to_send;
    return server.preparing && std::all_of(servers_.begin(), servers_.end(), [&](const Server& one) {
             return one.sent >= server.preparing->version();
           });
  }

  void take(ServerId i, int what) {
    Server& server = servers_[i];
    switch (what) {
      case 0:
        return hear(server);
      case 1:
        ++server.sent;
        return;
      case 2: {
        const wire::Apply commit = *std::exchange(server.preparing, std::nullopt);
        return carry_out(server, server.log.prepared(commit));
      }
      case 3: {
        const auto certain = commits_.prepared(i, Version(server.messages.front()));
        server.messages.pop_front();
        ASSERT_TRUE(certain.ok()) << certain.status();
        if (!*certain) return;
        wire::ServerOrder order;
        order.mutable_publish()->set_version((*certain)->value());
        return tell(order);
      }
      default: {
        control::ControllerState state;
        state.version = Version(++ordered_);
        wire::ServerOrder order;
        order.mutable_apply()->set_version(ordered_);
        order.mutable_apply()->set_state(store::to_text(state));
        commits_.ordered({std::move(state)}, {});
        tell(order);
      }
    }
  }

  void tell(const wire::ServerOrder& order) {
    for (Server& server : servers_) server.orders.push_back(order);
  }

  static void hear(Server& server) {
    auto actions = server.log.take(std::move(server.orders.front()));
    server.orders.pop_front();
    ASSERT_TRUE(actions.ok()) << actions.status();
    carry_out(server, *std::move(actions));
  }

  static void carry_out(Server& server, server::Actions actions) {
    for (server::Action& action : actions) {
      if (auto* prepare = std::get_if<server::Prepare>(&action)) {
        server.to_send = prepare->commit.version();
        server.preparing = std::move(prepare->commit);
      } else if (const auto* ahead = std::get_if<server::SendAhead>(&action)) {
        server.to_send = ahead->commit.version();
      } else if (const auto* publish = std::get_if<server::Publish>(&action)) {
        EXPECT_EQ(publish->version.value(), server.published + 1);
        server.published = publish->version.value();
      } else if (const auto* message = std::get_if<server::SendMessage>(&action)) {
        server.messages.push_back(message->message.prepared().version());
      } else {
        ADD_FAILURE() << "nothing else was ordered";
      }
    }
  }

  // The server's answer to an order to write a shard.
  static server::WriteCopy writes(Server& server, const wire::ServerOrder& order) {
    const auto actions = server.log.take(order);
    EXPECT_TRUE(actions.ok() && actions->size() == 1);
    const auto copy = std::get<server::WriteCopy>(actions->front());
    EXPECT_EQ(copy.version.value(), order.write_copy().version());
    EXPECT_EQ(copy.shard.value(), order.write_copy().shard());
    return copy;
  }

  IdVector<ServerId, Server> servers_;
  CommitQuorum commits_;
  std::int64_t ordered_ = 0;
  Rng rng_;
};

TEST(Protocol, ALossAtAnyStepLosesNothingThatWasSeen) {
  for (const int servers : {2, 3, 4}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Protocol whole(servers, seed);
      int at = 0;
      do {
        Protocol one = whole;
        one.kill(ServerId(at % servers));
        // The coordinator may hear of it late.
        for (int i = 0; i < at % 7; ++i) one.step();
        one.expect_emergency_checkpoint();
        ++at;
      } while (whole.step());
      ASSERT_EQ(whole.certain(), Protocol::kCommits);
    }
  }
}

TEST(Protocol, TheCoordinatorsDeathAtAnyStepLosesNothingThatWasSeenNorDoesAServersAtOnce) {
  for (const int servers : {2, 3, 4}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Protocol whole(servers, seed);
      do {
        for (int lost = -1; lost < servers; ++lost) {
          Protocol one = whole;
          one.expect_vote(lost < 0 ? std::nullopt : std::optional(ServerId(lost)));
        }
      } while (whole.step());
      ASSERT_EQ(whole.certain(), Protocol::kCommits);
    }
  }
}

}  // namespace
}  // namespace paceline::server
