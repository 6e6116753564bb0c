// Tests which server has which place, how each is told to start, and whose messages count, without any
// process.
#include "paceline/decisions/coordinator/server_fleet.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr SteadyTime kComing{std::chrono::hours(1)};

// A job that began with three hosts, and has given up host 1.
JobSettings job_of_hosts() {
  JobSettings job;
  job.hosts = job.servers = 2;
  job.ranks = {HostRank(0), HostRank(2)};
  job.without = {HostRank(1)};
  job.seal = true;
  job.spread = ServerSpread::kHosts;
  return job;
}
JobSettings job_on_one_host() {
  JobSettings job;
  job.servers = 2;
  return job;
}

ServerHello hello(int rank, const std::string& fabric = "sealed") {
  ServerHello message;
  message.shard = HostRank(rank);
  message.exchange = "address of " + std::to_string(rank);
  message.fabric = fabric;
  return message;
}

Layout two_tensors() {
  Layout layout;
  layout.add("a", TensorKind::kParameter, {64});
  layout.add("b", TensorKind::kParameter, {64});
  return layout;
}

class Servers {
 public:
  explicit Servers(const JobSettings& job)
      : fleet(job, out_, [this] { return fmt::format("key {}", ++keys_); }) {}

  // Why the server got no place; empty if it has one.
  std::string take_place(int peer, const ServerHello& message) {
    const auto refusal = fleet.take_place(ServerPeer(peer), message, kComing);
    return refusal ? refusal->why : "";
  }
  // The orders that were sent, with the peer's number.
  std::vector<std::pair<std::int64_t, ServerOrder>> sent() {
    std::vector<std::pair<std::int64_t, ServerOrder>> sent;
    for (Action& action : out_.take()) {
      if (const auto* all = std::get_if<SendServers>(&action)) {
        for (const ServerPeer to : all->to) sent.emplace_back(to.value(), all->order);
      } else {
        auto& one = std::get<SendServer>(action);
        sent.emplace_back(one.to.value(), std::move(one.order));
      }
    }
    return sent;
  }
  void start(const std::vector<std::string>& weights) {
    EXPECT_TRUE(fleet.split(two_tensors()).ok());
    fleet.start(ServerStart(), weights);
  }
  absl::Status started(int server, const std::vector<std::string>& boards) {
    ServerStarted message;
    for (const std::string& board : boards) message.board_paths.push_back(board);
    return fleet.started(ServerId(server), message);
  }

 private:
  Outbox out_;
  int keys_ = 0;

 public:
  ServerFleet fleet;
};

TEST(ServerFleet, AServerHasThePlaceOfItsHost) {
  Servers servers(job_of_hosts());
  EXPECT_EQ(servers.take_place(7, hello(2)), "");
  EXPECT_EQ(servers.fleet.server_of(ServerPeer(7)), ServerId(1));
  EXPECT_EQ(servers.fleet.rank(ServerId(1)), HostRank(2));
  EXPECT_EQ(servers.fleet.place(HostRank(2)), HostPlace(1));
  EXPECT_FALSE(servers.fleet.all_here());
  EXPECT_EQ(servers.take_place(8, hello(0)), "");
  EXPECT_TRUE(servers.fleet.all_here());
  EXPECT_EQ(servers.fleet.leave(ServerPeer(7)), ServerId(1));
  EXPECT_EQ(servers.fleet.leave(ServerPeer(7)), std::nullopt);
  EXPECT_EQ(servers.take_place(9, hello(2)), "") << "its place is free again";
}

TEST(ServerFleet, TellsAServerWhyItGetsNoPlace) {
  Servers servers(job_of_hosts());
  EXPECT_EQ(servers.take_place(1, hello(3)), "the job has no shard 3");
  EXPECT_EQ(servers.take_place(1, hello(-1)), "the job has no shard -1");
  EXPECT_THAT(servers.take_place(1, hello(1)), HasSubstr("host 1 was given up"));
  EXPECT_THAT(servers.take_place(1, hello(0, "tcp")), HasSubstr("cluster.seal = true"));
  ServerHello nowhere = hello(0);
  nowhere.exchange.clear();
  EXPECT_THAT(servers.take_place(1, nowhere), HasSubstr("no --exchange"));
  EXPECT_EQ(servers.take_place(1, hello(0)), "");
  EXPECT_EQ(servers.take_place(1, hello(2)), "server 0 said hello twice");
  EXPECT_EQ(servers.fleet.take_place(ServerPeer(2), hello(0), kComing)->reason,
            Disconnect::Reason::kPlaceTaken);
  EXPECT_TRUE(servers.sent().empty());
}

TEST(ServerFleet, LinksInTheClearGoOverOneFabric) {
  JobSettings job = job_of_hosts();
  job.seal = false;
  Servers servers(job);
  EXPECT_THAT(servers.take_place(1, hello(0)), HasSubstr("cluster.seal = false"));
  EXPECT_EQ(servers.take_place(1, hello(0, "tcp")), "");
  EXPECT_THAT(servers.take_place(2, hello(2, "ucx")),
              HasSubstr("go over ucx and those of another one over tcp"));
}

TEST(ServerFleet, LinksAreBetweenAddressesOfOneKind) {
  Servers servers(job_of_hosts());
  ServerHello message = hello(0);
  message.exchange = "10.0.0.1:40123";
  EXPECT_EQ(servers.take_place(1, message), "");
  message = hello(2);
  message.exchange = "[2001:db8::2]:40123";
  EXPECT_THAT(servers.take_place(2, message),
              HasSubstr("this host's links are at [2001:db8::2]:40123 and those of"));
  message.exchange = "10.0.0.3:40123";
  EXPECT_EQ(servers.take_place(2, message), "");
}

TEST(ServerFleet, EachStartsWithItsPartAndBothEndsOfALinkWithOneKey) {
  Servers servers(job_of_hosts());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(2));
  servers.start({"memory of host 0", "memory of host 2"});
  const auto sent = servers.sent();
  ASSERT_EQ(sent.size(), 2u);
  const ServerStart& first = std::get<ServerStart>(sent[0].second);
  const ServerStart& second = std::get<ServerStart>(sent[1].second);
  EXPECT_EQ(sent[1].first, 2);
  EXPECT_EQ(second.shard, 1);
  EXPECT_EQ(second.shard_count, 2);
  EXPECT_EQ(first.part_offset, 0);
  EXPECT_EQ(second.part_offset, 64);
  EXPECT_EQ(second.whole_floats, 128);
  EXPECT_EQ(second.weights_path, "memory of host 2");
  EXPECT_EQ(second.hosts[0].exchange, "address of 0");
  EXPECT_EQ(first.hosts[1].send_key, second.hosts[0].receive_key);
  EXPECT_EQ(first.hosts[1].receive_key, second.hosts[0].send_key);
  EXPECT_NE(first.hosts[1].send_key, first.hosts[1].receive_key);
  // One server could not read its weights.
  servers.fleet.start_with(ServerId(1), "memory of another worker");
  EXPECT_EQ(std::get<ServerStart>(servers.sent().front().second).weights_path, "memory of another worker");
  EXPECT_EQ(servers.fleet.first_weights(ServerId(1)), "memory of another worker");
}

TEST(ServerFleet, TheFirstHasTheWholeModelWhereItIsInOnePlace) {
  JobSettings job = job_of_hosts();
  job.spread = ServerSpread::kCentral;
  Servers servers(job);
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(2));
  servers.start({"memory of host 0", "memory of host 2"});
  const auto sent = servers.sent();
  ASSERT_EQ(sent.size(), 2u);
  for (const auto& [server, order] : sent) {
    EXPECT_EQ(std::get<ServerStart>(order).hosts[0].part.tensors().size(), 2u);
    EXPECT_EQ(std::get<ServerStart>(order).hosts[1].part.tensors().size(), 0u);
  }
  EXPECT_EQ(std::get<ServerStart>(sent[0].second).part.tensors().size(), 2u);
  EXPECT_EQ(std::get<ServerStart>(sent[1].second).part.tensors().size(), 0u);
  EXPECT_EQ(std::get<ServerStart>(sent[1].second).part_offset, 128);
}

TEST(ServerFleet, AReaderOnAHostFindsAllBoardsThere) {
  Servers servers(job_of_hosts());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(2));
  EXPECT_FALSE(servers.started(0, {"a", "b"}).ok()) << "it was not told to";
  servers.start({});
  EXPECT_FALSE(servers.started(0, {"a"}).ok()) << "a board for each shard";
  EXPECT_TRUE(servers.started(0, {"0 on 0", "1 on 0"}).ok());
  EXPECT_FALSE(servers.started(0, {"0 on 0", "1 on 0"}).ok()) << "twice";
  EXPECT_FALSE(servers.fleet.all_started());
  EXPECT_TRUE(servers.started(1, {"0 on 2", "1 on 2"}).ok());
  ASSERT_TRUE(servers.fleet.all_started());
  const Boards boards = servers.fleet.boards(HostPlace(1), 5);
  EXPECT_EQ(boards.reader, 5);
  EXPECT_EQ(boards.boards[0].path, "0 on 2");
  EXPECT_EQ(boards.boards[1].path, "1 on 2");
}

TEST(ServerFleet, OnOneHostEachHasABoardAndNoKeyIsMade) {
  Servers servers(job_on_one_host());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(1));
  servers.start({});
  for (const auto& [peer, order] : servers.sent()) EXPECT_EQ(std::get<ServerStart>(order).hosts.size(), 0u);
  EXPECT_TRUE(servers.started(0, {"zero"}).ok());
  EXPECT_TRUE(servers.started(1, {"one"}).ok());
  const Boards boards = servers.fleet.boards(HostPlace(0), 0);
  EXPECT_EQ(boards.boards[0].path, "zero");
  EXPECT_EQ(boards.boards[1].path, "one");
}

TEST(ServerFleet, AReaderThatComputesElsewhereReadsTheHostsBoardAndRingsAtTheCards) {
  Servers servers(job_on_one_host());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(1));
  servers.start({});
  for (const int server : {0, 1}) {
    ServerStarted message;
    message.board_paths = {fmt::format("board {}", server)};
    message.card = fmt::format("GPU-{}", server);
    message.host_path = fmt::format("mirror {}", server);
    ASSERT_TRUE(servers.fleet.started(ServerId(server), message).ok());
  }
  const std::vector<Board> boards = servers.fleet.boards(HostPlace(0), 0, "GPU-1").boards;
  EXPECT_EQ(boards[0].path, "mirror 0");
  EXPECT_EQ(boards[0].bell, "board 0");
  EXPECT_EQ(boards[0].card, "");
  EXPECT_EQ(boards[1].path, "board 1");
  EXPECT_EQ(boards[1].bell, "");
  EXPECT_EQ(boards[1].card, "GPU-1");
}

TEST(ServerFleet, AVersionIsMadeOnceAllHaveIt) {
  Servers servers(job_on_one_host());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(1));
  EXPECT_FALSE(servers.fleet.applied(ServerId(0), Version(1), Version(1)).ok()) << "before its start";
  servers.start({});
  ASSERT_TRUE(servers.started(0, {"zero"}).ok() && servers.started(1, {"one"}).ok());
  EXPECT_EQ(servers.fleet.applied(ServerId(0), Version(1), Version(2)).value(), Version(0));
  EXPECT_EQ(servers.fleet.applied(ServerId(0), Version(2), Version(2)).value(), Version(0));
  EXPECT_EQ(servers.fleet.applied(ServerId(1), Version(1), Version(2)).value(), Version(1));
  EXPECT_FALSE(servers.fleet.applied(ServerId(1), Version(1), Version(2)).ok()) << "twice";
  EXPECT_FALSE(servers.fleet.applied(ServerId(1), Version(3), Version(2)).ok()) << "nobody ordered it";
}

TEST(ServerFleet, DoesNotTalkToAServerThatWasGivenUp) {
  Servers servers(job_on_one_host());
  servers.take_place(1, hello(0));
  servers.take_place(2, hello(1));
  EXPECT_FALSE(servers.fleet.silent(kComing + std::chrono::seconds(1)));
  servers.fleet.hear(ServerId(0), kComing + std::chrono::seconds(20), kComing);
  const auto silent = servers.fleet.silent(kComing + std::chrono::seconds(20));
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->server, ServerId(1));
  EXPECT_THAT(silent->why, HasSubstr("server 1 was silent for 20"));
  servers.fleet.send_back(ServerId(1), silent->why);
  EXPECT_TRUE(std::get<Disconnect>(servers.sent().back().second).again);
  EXPECT_FALSE(servers.fleet.here(ServerId(1)));
  servers.fleet.tell(ServerOrder());
  const auto sent = servers.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first, 1);
}

}  // namespace
}  // namespace paceline::coordinator
