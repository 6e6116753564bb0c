// Several hosts' servers in one process, each with a thread, shards and an exchange of its own, and real
// links between them; for tests of the results of a run of commits.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/exchange/commit_exchange.h"
#include "paceline/parameters/exchange/exchange.h"

namespace paceline::exchange::testing {

inline constexpr std::chrono::seconds kPatience{60};
inline constexpr ps::OptimizerConfig kOptimizer{.kind = ps::OptimizerKind::kSgd, .momentum = 0.9};

// Parameters, statistics and a constant, with tensors larger than a block.
inline ps::Layout model() {
  ps::Layout layout;
  layout.add("conv", ps::TensorKind::kParameter, {kLeastBlock + 100});
  layout.add("norm.mean", ps::TensorKind::kStatistic, {33});
  layout.add("fc1", ps::TensorKind::kParameter, {kLeastBlock});
  layout.add("frozen", ps::TensorKind::kConstant, {kLeastBlock + 5000}, ps::Dtype::kInt64);
  layout.add("fc2", ps::TensorKind::kParameter, {77});
  layout.add("norm.variance", ps::TensorKind::kStatistic, {5});
  layout.add("fc3", ps::TensorKind::kParameter, {1000});
  return layout;
}

inline std::vector<float> random_floats(Rng& rng, std::int64_t size) {
  std::vector<float> floats(static_cast<std::size_t>(size));
  for (float& one : floats) one = static_cast<float>(rng.normal());
  return floats;
}

// A member of a commit: its host, and its gradient.
struct Member {
  int host;
  std::vector<float> gradient;
  bool waits = true;  // whether it waits for the version's weights
  EarlyNumber early{};
};
using Commit = std::vector<Member>;

// A gradient that a host sends before it is in a commit, if it ever is.
struct Early {
  int host;
  EarlyNumber number;
  const float* gradient;
};
// Orders for all hosts, in this sequence.
struct Told {
  std::vector<Early> early{};
  Commit commit{};  // empty: none
};

inline double weight_of(const Commit& commit, std::size_t i) {
  return static_cast<double>(i + 1) / static_cast<double>(commit.size());
}

struct Server {
  std::vector<std::unique_ptr<ps::Shard>> shards;  // its own first
  ps::Shard* shard = nullptr;                      // its own
  std::optional<CommitExchange> commits;
  std::unique_ptr<Exchange> exchange;
  std::atomic<std::int64_t> kept_there{-1};
  std::atomic<int> failures{0};
};

// The hosts that keep the weights: each host a part, or host 0 all of them; and in the latter case the place
// where a commit's gradients are summed.
enum class Kept { kEverywhere, kInOnePlace, kInOnePlaceSummedOnTheWay };

class Hosts {
 public:
  explicit Hosts(int hosts, bool look_ahead = false, links::Fabric fabric = links::Fabric::kTcp,
                 int copies = 1, double clip = 0, Kept where = Kept::kEverywhere)
      : clip_(clip),
        layout_(model()),
        parts_(parts(layout_, hosts, where)),
        servers_(static_cast<std::size_t>(hosts)) {
    Rng rng(1);
    first_ = random_floats(rng, layout_.size());
    ExchangeOptions common;
    for (const ps::Layout& part : parts_) {
      common.part_floats.push_back(part.size());
      common.board_floats.push_back(ps::Shard::board_floats(part, look_ahead));
      common.moving.push_back(moving_blocks(part, common.board_floats.back()));
    }
    common.readers = 4;
    common.kept = 2;
    for (int host = 0; host < hosts; ++host)
      servers_[std::size_t(host)].exchange = Exchange::listen("127.0.0.1", fabric).value();
    std::vector<std::vector<int>> kept(static_cast<std::size_t>(hosts));
    for (int host = 0; host < hosts; ++host) {
      for (int copy = 0; copy < copies; ++copy)
        kept[std::size_t(host)].push_back((host + hosts - copy) % hosts);
    }
    for (int host = 0; host < hosts; ++host) {
      Server& server = servers_[std::size_t(host)];
      for (const int shard : kept[std::size_t(host)]) server.shards.push_back(first(shard, look_ahead));
      server.shard = server.shards.front().get();
      ExchangeOptions options = common;
      options.host = host;
      options.kept_here = kept[std::size_t(host)];
      options.early = copies == 1;
      options.pass_on = where == Kept::kInOnePlaceSummedOnTheWay;
      if (options.pass_on && host > 0) options.kept_here.push_back(0);
      for (int other = 0; other < hosts; ++other) {
        options.peers.push_back(
            {servers_[std::size_t(other)].exchange->address(), keys_between(host, other)});
      }
      options.own_board = server.shard->board().path();
      options.kept_there = [&](Version version) { server.kept_there = version.value(); };
      options.failed = [&](const absl::Status&) { ++server.failures; };
      EXPECT_TRUE(server.exchange->start(options).ok());
      server.exchange->published(Version(0));
      server.commits.emplace(*server.exchange, parts_, kept, host, options.pass_on);
    }
  }

  Server& at(int host) { return servers_[static_cast<std::size_t>(host)]; }
  int size() const { return static_cast<int>(servers_.size()); }

  // Lets every host apply all commits, in a thread of its own.
  void apply(const std::vector<Commit>& commits) {
    std::vector<std::jthread> threads;
    for (int host = 0; host < size(); ++host) {
      threads.emplace_back([this, host, &commits] {
        for (std::size_t i = 0; i < commits.size(); ++i) {
          const absl::Status status = apply_one(host, Version(static_cast<std::int64_t>(i) + 1), commits[i]);
          EXPECT_TRUE(status.ok()) << host << ": " << status;
        }
        // The members' memory is freed after this.
        EXPECT_TRUE(at(host).commits->flush().ok());
      });
    }
  }

  // The same with gradients that are sent early.
  void apply(const std::vector<Told>& told) {
    std::vector<std::jthread> threads;
    for (int host = 0; host < size(); ++host) {
      threads.emplace_back([this, host, &told] {
        Version version(0);
        for (const Told& one : told) {
          for (const Early& early : one.early) send_early(host, early);
          if (one.commit.empty()) continue;
          version = version.next();
          const absl::Status status = apply_one(host, version, one.commit);
          EXPECT_TRUE(status.ok()) << host << ": " << status;
        }
        EXPECT_TRUE(at(host).commits->flush().ok());
      });
    }
  }
  void send_early(int host, const Early& early) {
    at(host).commits->send_early(early.host, early.number, early.host == host ? early.gradient : nullptr);
  }

  absl::Status apply_one(int host, Version version, const Commit& commit) {
    return at(host).commits->apply(*at(host).shard, update_to(version), members_of(host, commit));
  }

  // The two steps of apply_one(), for all shards that the host keeps.
  absl::Status send_one(int host, Version version, const Commit& commit) {
    return at(host).commits->send(version, members_of(host, commit));
  }
  absl::Status prepare_one(int host, Version version, const Commit& commit) {
    std::vector<ps::Shard*> shards;
    for (const auto& shard : at(host).shards) shards.push_back(shard.get());
    return at(host).commits->prepare(shards, update_to(version), members_of(host, commit));
  }
  void publish_one(int host) {
    for (const auto& shard : at(host).shards) shard->publish();
    at(host).exchange->published(at(host).shard->version());
  }

  // The model of this version, read like a worker of that host.
  std::vector<float> read(int host, Version version) {
    for (Server& server : servers_) server.exchange->want(host, version);
    std::vector<float> whole;
    for (int shard = 0; shard < size(); ++shard) {
      if (parts_[std::size_t(shard)].size() == 0) continue;
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

  memory::WeightReader open(int host, int shard) {
    const Server& server = at(host);
    const auto floats = static_cast<std::int64_t>(at(shard).shard->board().latest().size());
    return memory::WeightReader::open(server.exchange->boards()[std::size_t(shard)], floats, 0).value();
  }

  // The weights of a single shard after all these commits.
  std::vector<float> on_one_host(const std::vector<Commit>& commits) const {
    ps::Shard shard(layout_, optimizer(), memory::WeightWriter::create(layout_.size(), 2, 0).value(), 1);
    EXPECT_TRUE(shard.start(Version(0), first_).ok());
    for (const Commit& commit : commits) {
      ps::Update update{.version = shard.version().next(), .members = {}, .learning_rate = 0.1};
      for (std::size_t m = 0; m < commit.size(); ++m)
        update.members.push_back(
            {commit[m].gradient.data(), weight_of(commit, m), 1 / static_cast<double>(commit.size())});
      EXPECT_TRUE(shard.apply(update).ok());
    }
    return {shard.weights().begin(), shard.weights().end()};
  }

  // A shard in the state in which every run begins.
  std::unique_ptr<ps::Shard> first(int shard, bool look_ahead = false) const {
    const ps::Layout& part = parts_[std::size_t(shard)];
    auto board = memory::WeightWriter::create(ps::Shard::board_floats(part, look_ahead), 4 + size(), 2);
    auto made = std::make_unique<ps::Shard>(part, optimizer(), std::move(board).value(), 2);
    EXPECT_TRUE(made->start(Version(0), std::span(first_).subspan(std::size_t(offset_of(shard)),
                                                                  std::size_t(part.size())))
                    .ok());
    return made;
  }
  std::int64_t offset_of(int shard) const {
    std::int64_t offset = 0;
    for (int before = 0; before < shard; ++before) offset += parts_[std::size_t(before)].size();
    return offset;
  }

  // The shard after these commits, if it gets all gradients directly.
  std::unique_ptr<ps::Shard> alone(int shard, const std::vector<Commit>& commits) const {
    auto made = first(shard);
    for (const Commit& commit : commits) {
      ps::Update update = update_to(made->version().next());
      for (std::size_t m = 0; m < commit.size(); ++m)
        update.members.push_back({commit[m].gradient.data() + offset_of(shard), weight_of(commit, m),
                                  1 / static_cast<double>(commit.size())});
      EXPECT_TRUE(made->apply(update).ok());
    }
    return made;
  }

  std::int64_t floats() const { return layout_.size(); }
  // The bytes of one gradient, or of one version of the weights, in blocks that move.
  std::int64_t moving_bytes() const {
    std::vector<float> floats(static_cast<std::size_t>(layout_.size()));
    const std::vector<bool> moving = moving_blocks(layout_, layout_.size());
    std::int64_t bytes = 0;
    for (std::size_t block = 0; block < moving.size(); ++block) {
      const auto begin = block_begin(layout_.size(), block);
      if (moving[block]) bytes += std::ssize(std::as_bytes(block_at(std::span(floats), begin)));
    }
    return bytes;
  }
  std::int64_t gradients_sent(int host) {
    std::int64_t bytes = 0;
    for (const Exchange::SentBytes& to : at(host).exchange->sent_bytes()) bytes += to.gradients;
    return bytes;
  }
  std::int64_t weights_sent(int host) {
    std::int64_t bytes = 0;
    for (const Exchange::SentBytes& to : at(host).exchange->sent_bytes()) bytes += to.weights;
    return bytes;
  }
  void kill(int host) { at(host).exchange.reset(); }

 private:
  static std::vector<ps::Layout> parts(const ps::Layout& layout, int hosts, Kept where) {
    if (where == Kept::kEverywhere) return layout.split_evenly(hosts);
    std::vector<ps::Layout> parts(static_cast<std::size_t>(hosts));
    parts.front() = layout;
    return parts;
  }
  static ps::Update update_to(Version version) {
    return {.version = version, .members = {}, .learning_rate = 0.1};
  }
  // The members as a server has them: with a gradient only if it is read.
  std::vector<HostMember> members_of(int host, const Commit& commit) {
    std::vector<HostMember> members;
    for (std::size_t m = 0; m < commit.size(); ++m) {
      members.push_back({commit[m].host, nullptr, weight_of(commit, m),
                         1 / static_cast<double>(commit.size()), commit[m].waits, commit[m].early});
    }
    for (std::size_t m = 0; m < commit.size(); ++m) {
      if (commit[m].host == host && at(host).commits->reads(members[m], members))
        members[m].gradient = commit[m].gradient.data();
    }
    return members;
  }
  static links::LinkKeys keys_between(int from, int to) {
    links::LinkKeys keys{};
    keys.send.fill(static_cast<std::byte>(16 * from + to));
    keys.receive.fill(static_cast<std::byte>(16 * to + from));
    return keys;
  }

  ps::OptimizerConfig optimizer() const {
    ps::OptimizerConfig config = kOptimizer;
    config.clip = clip_;
    return config;
  }

  const double clip_;
  const ps::Layout layout_;
  const std::vector<ps::Layout> parts_;
  std::vector<float> first_;
  std::vector<Server> servers_;
};

}  // namespace paceline::exchange::testing
