// What several hosts' servers make of a run of commits is what one shard makes of it.
#include "paceline/exchange/commit_exchange.h"

#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/exchange/testing/hosts.h"

namespace paceline::exchange {
namespace {

using testing::Commit;
using testing::Hosts;
using testing::random_floats;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(CommitExchange, OneMemberAHostGivesTheSameBitsAsOneHost) {
  for (const int count : {2, 3, 4}) {
    constexpr std::array kFabrics{links::Fabric::kTcp, links::Fabric::kSealed, links::Fabric::kUcx};
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

TEST(CommitExchange, ClipsByTheNormOfAllShards) {
  constexpr double kClip = 0.5;
  for (const int count : {2, 3}) {
    Hosts hosts(count, false, links::Fabric::kTcp, 1, kClip);
    Rng rng(6);
    std::vector<Commit> commits;
    for (int v = 0; v < 6; ++v) {
      Commit& commit = commits.emplace_back();
      for (int host = 0; host < count; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
    }
    hosts.apply(commits);
    const std::vector<float> expected = hosts.on_one_host(commits);
    const std::vector<float> unclipped = Hosts(count).on_one_host(commits);
    for (int host = 0; host < count; ++host) {
      const std::vector<float> found = hosts.read(host, Version(6));
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6) << i;
    }
    EXPECT_GT(std::abs(unclipped[0] - expected[0]), 1e-3);
  }
}

// A server that waits for a norm learns that it never comes.
TEST(CommitExchange, ANormOfAHostThatIsGoneIsAnError) {
  Hosts hosts(2, false, links::Fabric::kTcp, 1, 0.5);
  Rng rng(6);
  const Commit commit = {{0, random_floats(rng, hosts.floats())}};
  std::jthread one([&] { EXPECT_FALSE(hosts.apply_one(0, Version(1), commit).ok()); });
  hosts.kill(1);
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

TEST(CommitExchange, AHostGoesWhileItsSumsAreOnTheirWay) {
  Rng rng(6);
  for (int round = 0; round < 10; ++round) {
    Hosts hosts(2);
    const Commit commit = {{0, random_floats(rng, hosts.floats())}, {0, random_floats(rng, hosts.floats())}};
    hosts.apply({commit});
    EXPECT_TRUE(hosts.send_one(0, Version(2), commit).ok());
  }
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
    // Or of host 1, which has ended over the same.
    EXPECT_NE(status.message().find("the peer is gone"), std::string::npos) << status;
  });
  EXPECT_TRUE(hosts.at(2).commits->flush().ok());
  hosts.kill(2);
  waits.join();
  EXPECT_EQ(hosts.at(0).failures, 1);
}

}  // namespace
}  // namespace paceline::exchange
