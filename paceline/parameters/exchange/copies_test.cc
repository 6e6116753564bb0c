// Shards that are kept on two hosts: both copies are equal to the last bit, and whichever host dies at
// whichever step of a commit, the others have all shards of the last version that all had prepared.
#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/exchange/testing/hosts.h"

namespace paceline::exchange {
namespace {

using testing::Commit;
using testing::Hosts;
using testing::random_floats;

constexpr int kCopies = 2;

// Commits of up to four members, on any hosts.
std::vector<Commit> random_commits(int hosts, int count, std::int64_t floats, Rng& rng) {
  std::vector<Commit> commits(static_cast<std::size_t>(count));
  for (Commit& commit : commits) {
    const std::uint64_t members = 1 + rng.below(4);
    for (std::uint64_t m = 0; m < members; ++m)
      commit.push_back({static_cast<int>(rng.below(std::uint64_t(hosts))), random_floats(rng, floats)});
  }
  return commits;
}

void prepare_everywhere(Hosts& hosts, Version version, const Commit& commit) {
  std::vector<std::jthread> threads;
  for (int host = 0; host < hosts.size(); ++host) {
    threads.emplace_back([&hosts, host, version, &commit] {
      const absl::Status status = hosts.prepare_one(host, version, commit);
      EXPECT_TRUE(status.ok()) << host << ": " << status;
    });
  }
}

// Weights and optimizer state of the newest published version.
using Contents = std::pair<std::vector<float>, std::vector<std::vector<float>>>;
Contents contents(const ps::Shard& shard) {
  return {{shard.weights().begin(), shard.weights().end()}, shard.optimizer_state().streams};
}

TEST(Copies, AreEqualToTheLastBit) {
  for (const int count : {2, 3}) {
    Hosts hosts(count, false, count == 3 ? links::Fabric::kSealed : links::Fabric::kTcp, kCopies);
    Rng rng(7);
    const auto commits = random_commits(count, 12, hosts.floats(), rng);
    for (std::size_t v = 0; v < commits.size(); ++v) {
      prepare_everywhere(hosts, Version(std::int64_t(v) + 1), commits[v]);
      for (int host = 0; host < count; ++host) hosts.publish_one(host);
    }
    for (int shard = 0; shard < count; ++shard) {
      const ps::Shard& other = *hosts.at((shard + 1) % count).shards.at(1);
      EXPECT_EQ(contents(*hosts.at(shard).shard), contents(other)) << shard;
    }
    const auto whole = hosts.read(0, Version(12));
    const auto expected = hosts.on_one_host(commits);
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], expected[i], 1e-4) << i;
    for (int host = 0; host < count; ++host) EXPECT_TRUE(hosts.at(host).commits->flush().ok());
  }
}

TEST(Copies, AreClippedByTheSameNorm) {
  constexpr double kClip = 0.5;
  Hosts hosts(3, false, links::Fabric::kTcp, kCopies, kClip);
  Rng rng(9);
  const auto commits = random_commits(3, 6, hosts.floats(), rng);
  for (std::size_t v = 0; v < commits.size(); ++v) {
    prepare_everywhere(hosts, Version(std::int64_t(v) + 1), commits[v]);
    for (int host = 0; host < 3; ++host) hosts.publish_one(host);
  }
  for (int shard = 0; shard < 3; ++shard)
    EXPECT_EQ(contents(*hosts.at(shard).shard), contents(*hosts.at((shard + 1) % 3).shards.at(1))) << shard;
  const auto whole = hosts.read(0, Version(6));
  const auto expected = hosts.on_one_host(commits);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], expected[i], 1e-5) << i;
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(hosts.at(host).commits->flush().ok());
}

TEST(Copies, TheNextCommitsGradientsComeWhileOneIsUncertain) {
  Hosts hosts(3, false, links::Fabric::kTcp, kCopies);
  Rng rng(8);
  const auto commits = random_commits(3, 2, hosts.floats(), rng);
  prepare_everywhere(hosts, Version(1), commits[0]);
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(hosts.send_one(host, Version(2), commits[1]).ok());
  // All gradients have arrived: no host has to send before it is prepared.
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(hosts.at(host).commits->flush().ok());
  for (int host = 0; host < 3; ++host) {
    EXPECT_EQ(hosts.at(host).shard->version(), Version(0));
    hosts.publish_one(host);
    EXPECT_TRUE(hosts.prepare_one(host, Version(2), commits[1]).ok());
    hosts.publish_one(host);
  }
  const auto whole = hosts.read(1, Version(2));
  const auto expected = hosts.on_one_host(commits);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], expected[i], 1e-4) << i;
}

// The state of the run when a host dies: the version before is certain, and the new commit …
enum class Step {
  kNothing,        // … was not begun
  kOthersPrepare,  // … is being prepared by the others, which wait in vain for the dead host's gradients
  kItHasSent,      // … has all the gradients of the dead host, which had not prepared it
  kAllPrepared,    // … is certain, and no host has published it
  kSomePublished,  // … is published on the dead host and on some others
};

TEST(Copies, KeepTheLastCertainVersionIfAnyHostDiesAtAnyStep) {
  constexpr int kHosts = 3;
  for (const Step step :
       {Step::kNothing, Step::kOthersPrepare, Step::kItHasSent, Step::kAllPrepared, Step::kSomePublished}) {
    for (int dead = 0; dead < kHosts; ++dead) {
      SCOPED_TRACE(::testing::Message() << "step " << static_cast<int>(step) << ", host " << dead);
      std::vector<Commit> commits(2);  // outlive the links
      Hosts hosts(kHosts, false, links::Fabric::kTcp, kCopies);
      Rng rng(9);
      for (Commit& commit : commits) {
        for (int host = 0; host < kHosts; ++host)
          commit.push_back({host, random_floats(rng, hosts.floats())});
      }
      prepare_everywhere(hosts, Version(1), commits[0]);
      for (int host = 0; host < kHosts; ++host) hosts.publish_one(host);
      const bool certain = step == Step::kAllPrepared || step == Step::kSomePublished;
      if (certain) prepare_everywhere(hosts, Version(2), commits[1]);
      if (step == Step::kItHasSent) {
        EXPECT_TRUE(hosts.send_one(dead, Version(2), commits[1]).ok());
        EXPECT_TRUE(hosts.at(dead).commits->flush().ok());
      }
      if (step == Step::kSomePublished) {
        hosts.publish_one(dead);
        hosts.publish_one((dead + 2) % kHosts);
      }
      std::vector<std::jthread> waiting;
      for (int host = 0; host < kHosts && step == Step::kOthersPrepare; ++host) {
        if (host == dead) continue;
        waiting.emplace_back(
            [&, host] { EXPECT_FALSE(hosts.prepare_one(host, Version(2), commits[1]).ok()); });
      }
      hosts.kill(dead);
      waiting.clear();
      const Version last(certain ? 2 : 1);
      for (int host = 0; host < kHosts; ++host) {
        if (host != dead && hosts.at(host).shard->version() < last) hosts.publish_one(host);
      }
      for (int shard = 0; shard < kHosts; ++shard) {
        const int keeper = shard == dead ? (shard + 1) % kHosts : shard;
        const ps::Shard& copy = *hosts.at(keeper).shards.at(keeper == shard ? 0 : 1);
        EXPECT_EQ(copy.version(), last);
        EXPECT_EQ(contents(copy),
                  contents(*hosts.alone(shard, {commits.begin(), commits.begin() + last.value()})));
      }
    }
  }
}

}  // namespace
}  // namespace paceline::exchange
