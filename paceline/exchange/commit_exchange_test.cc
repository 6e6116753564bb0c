// Several hosts' servers in one process, each with a thread, a shard and an exchange of its own, and real
// links between them: what they make of a run of commits is what one shard makes of it.
#include "paceline/exchange/commit_exchange.h"

#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::exchange {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr ps::OptimizerConfig kOptimizer{.kind = ps::OptimizerKind::kSgd, .momentum = 0.9};

// Parameters and statistics, with a tensor of more than a block.
ps::Layout model() {
  ps::Layout layout;
  layout.add("conv", ps::TensorKind::kParameter, {kBlockFloats + 100});
  layout.add("norm.mean", ps::TensorKind::kStatistic, {33});
  layout.add("fc1", ps::TensorKind::kParameter, {kBlockFloats});
  layout.add("fc2", ps::TensorKind::kParameter, {77});
  layout.add("norm.variance", ps::TensorKind::kStatistic, {5});
  layout.add("fc3", ps::TensorKind::kParameter, {1000});
  return layout;
}

std::vector<float> random_floats(Rng& rng, std::int64_t size) {
  std::vector<float> floats(static_cast<std::size_t>(size));
  for (float& one : floats) one = static_cast<float>(rng.normal());
  return floats;
}

// A member of a commit: on which host, and its gradient.
struct Member {
  int host;
  std::vector<float> gradient;
};
using Commit = std::vector<Member>;

double weight_of(const Commit& commit, std::size_t i) {
  return static_cast<double>(i + 1) / static_cast<double>(commit.size());
}

struct Server {
  std::optional<ps::Shard> shard;
  std::unique_ptr<Exchange> exchange;
  std::optional<CommitExchange> commits;
  std::atomic<std::int64_t> kept_there{-1};
  std::atomic<int> failures{0};
};

class Hosts {
 public:
  explicit Hosts(int hosts, bool look_ahead = false, transport::Fabric fabric = transport::Fabric::kTcp)
      : layout_(model()), parts_(layout_.split_evenly(hosts)), servers_(static_cast<std::size_t>(hosts)) {
    Rng rng(1);
    first_ = random_floats(rng, layout_.size());
    ExchangeOptions common;
    for (const ps::Layout& part : parts_) {
      common.part_floats.push_back(part.size());
      common.board_floats.push_back(ps::Shard::board_floats(part, look_ahead));
    }
    common.readers = 4;
    common.kept = 2;
    for (int host = 0; host < hosts; ++host)
      servers_[std::size_t(host)].exchange = Exchange::listen("127.0.0.1", fabric).value();
    std::int64_t offset = 0;
    for (int host = 0; host < hosts; ++host) {
      Server& server = servers_[std::size_t(host)];
      const ps::Layout& part = parts_[std::size_t(host)];
      auto board =
          transport::WeightWriter::create(common.board_floats[std::size_t(host)], 4 + hosts, 2).value();
      server.shard.emplace(part, kOptimizer, std::move(board), 2);
      server.shard->start(Version(0),
                          std::span(first_).subspan(std::size_t(offset), std::size_t(part.size())));
      offset += part.size();
      ExchangeOptions options = common;
      options.host = host;
      for (int other = 0; other < hosts; ++other) {
        options.peers.push_back({servers_[std::size_t(other)].exchange->address(), std::nullopt});
        if (fabric == transport::Fabric::kSealed) options.peers.back().keys = keys_between(host, other);
      }
      options.own_board = server.shard->board().path();
      options.kept_there = [&](Version version) { server.kept_there = version.value(); };
      options.failed = [&](const absl::Status&) { ++server.failures; };
      EXPECT_TRUE(server.exchange->start(options).ok());
      server.exchange->published(Version(0));
      server.commits.emplace(*server.exchange, parts_, host);
    }
  }

  Server& at(int host) { return servers_[static_cast<std::size_t>(host)]; }
  int size() const { return static_cast<int>(servers_.size()); }

  // Every host applies all commits, in a thread of its own.
  void apply(const std::vector<Commit>& commits) {
    std::vector<std::jthread> threads;
    for (int host = 0; host < size(); ++host) {
      threads.emplace_back([this, host, &commits] {
        for (std::size_t i = 0; i < commits.size(); ++i) {
          const absl::Status status = apply_one(host, Version(static_cast<std::int64_t>(i) + 1), commits[i]);
          EXPECT_TRUE(status.ok()) << host << ": " << status;
        }
        // The members' memory goes.
        EXPECT_TRUE(at(host).commits->flush().ok());
      });
    }
  }

  absl::Status apply_one(int host, Version version, const Commit& commit) {
    std::vector<HostMember> members;
    for (std::size_t m = 0; m < commit.size(); ++m) {
      members.push_back({commit[m].host, commit[m].host == host ? commit[m].gradient.data() : nullptr,
                         weight_of(commit, m), 1 / static_cast<double>(commit.size())});
    }
    return at(host).commits->apply(*at(host).shard, {.version = version, .members = {}, .learning_rate = 0.1},
                                   members);
  }

  // The model of this version, as a worker of that host reads it.
  std::vector<float> read(int host, Version version) {
    for (Server& server : servers_) server.exchange->want(host, version);
    std::vector<float> whole;
    for (int shard = 0; shard < size(); ++shard) {
      auto reader = open(host, shard);
      const auto pinned = reader.pin(version, kPatience);
      EXPECT_TRUE(pinned) << "host " << host << ", shard " << shard;
      if (!pinned) return whole;
      EXPECT_EQ(pinned->version, version);
      const auto weights = pinned->weights.first(std::size_t(parts_[std::size_t(shard)].size()));
      whole.insert(whole.end(), weights.begin(), weights.end());
    }
    return whole;
  }

  transport::WeightReader open(int host, int shard) {
    const Server& server = at(host);
    const auto floats = static_cast<std::int64_t>(at(shard).shard->board().latest().size());
    return transport::WeightReader::open(server.exchange->boards()[std::size_t(shard)], floats, 0).value();
  }

  // What one shard makes of all that.
  std::vector<float> on_one_host(const std::vector<Commit>& commits) const {
    ps::Shard shard(layout_, kOptimizer, transport::WeightWriter::create(layout_.size(), 2, 0).value(), 1);
    shard.start(Version(0), first_);
    for (const Commit& commit : commits) {
      ps::Update update{.version = shard.version().next(), .members = {}, .learning_rate = 0.1};
      for (std::size_t m = 0; m < commit.size(); ++m)
        update.members.push_back(
            {commit[m].gradient.data(), weight_of(commit, m), 1 / static_cast<double>(commit.size())});
      EXPECT_TRUE(shard.apply(update).ok());
    }
    return {shard.weights().begin(), shard.weights().end()};
  }

  std::int64_t floats() const { return layout_.size(); }
  void kill(int host) { at(host).exchange.reset(); }

 private:
  static transport::LinkKeys keys_between(int from, int to) {
    transport::LinkKeys keys{};
    keys.send.fill(static_cast<std::byte>(16 * from + to));
    keys.receive.fill(static_cast<std::byte>(16 * to + from));
    return keys;
  }

  const ps::Layout layout_;
  const std::vector<ps::Layout> parts_;
  std::vector<float> first_;
  std::vector<Server> servers_;
};

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(CommitExchange, OneMemberAHostGivesTheSameBitsAsOneHost) {
  for (const int count : {2, 3, 4}) {
    constexpr std::array kFabrics{transport::Fabric::kTcp, transport::Fabric::kSealed,
                                  transport::Fabric::kUcx};
    Hosts hosts(count, false, kFabrics[static_cast<std::size_t>(count) % kFabrics.size()]);
    Rng rng(2);
    std::vector<Commit> commits;
    for (int v = 0; v < 5; ++v) {
      Commit& commit = commits.emplace_back();
      for (int host = 0; host < count; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
    }
    hosts.apply(commits);
    const std::vector<float> expected = hosts.on_one_host(commits);
    for (int host = 0; host < count; ++host) EXPECT_EQ(hosts.read(host, Version(5)), expected) << host;
  }
}

TEST(CommitExchange, AnyMembersOfAnyHosts) {
  Hosts hosts(3, true);
  Rng rng(3);
  std::vector<Commit> commits;
  for (int v = 0; v < 40; ++v) {
    Commit& commit = commits.emplace_back();
    const std::uint64_t members = 1 + rng.below(4);
    for (std::uint64_t m = 0; m < members; ++m)
      commit.push_back({static_cast<int>(rng.below(3)), random_floats(rng, hosts.floats())});
  }
  hosts.apply(commits);
  const std::vector<float> expected = hosts.on_one_host(commits);
  for (int host = 0; host < 3; ++host) expect_near(hosts.read(host, Version(40)), expected);
}

TEST(CommitExchange, AKeptVersionStaysOnTheHostThatAskedForIt) {
  Hosts hosts(2);
  Rng rng(4);
  const Commit commit = {{1, random_floats(rng, hosts.floats())}};
  hosts.apply({commit});
  const std::vector<float> expected = hosts.read(0, Version(1));
  ASSERT_TRUE(hosts.at(1).shard->board().keep(Version(1)).ok());
  hosts.at(1).exchange->keep(0, Version(1));
  for (std::int64_t v = 2; v < 6; ++v) {
    std::vector<std::jthread> threads;
    for (int host = 0; host < 2; ++host)
      threads.emplace_back([&, host] { EXPECT_TRUE(hosts.apply_one(host, Version(v), commit).ok()); });
    threads.clear();
    hosts.read(0, Version(v));
  }
  while (hosts.at(1).kept_there != 1) std::this_thread::yield();
  auto reader = hosts.open(0, 1);
  const auto pinned = reader.pin_exactly(Version(1));
  ASSERT_TRUE(pinned);
  EXPECT_TRUE(std::equal(pinned->weights.begin(), pinned->weights.end(),
                         expected.end() - std::ptrdiff_t(pinned->weights.size())));
  for (int host = 0; host < 2; ++host) EXPECT_TRUE(hosts.at(host).commits->flush().ok());
}

TEST(CommitExchange, WhoeverWaitsForAHostThatIsGoneIsToldSo) {
  Hosts hosts(3);
  Rng rng(5);
  Commit commit;
  for (int host = 0; host < 3; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
  hosts.apply({commit});
  std::jthread waits([&] {
    const absl::Status status = hosts.apply_one(0, Version(2), commit);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("host 2"), std::string::npos) << status;
  });
  EXPECT_TRUE(hosts.at(2).commits->flush().ok());
  hosts.kill(2);
  waits.join();
  EXPECT_EQ(hosts.at(0).failures, 1);
  EXPECT_FALSE(hosts.at(0).commits->flush().ok());
}

}  // namespace
}  // namespace paceline::exchange
