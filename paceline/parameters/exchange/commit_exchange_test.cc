// The result of a run of commits on several hosts' servers is equal to that of one shard.
#include "paceline/parameters/exchange/commit_exchange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/exchange/testing/hosts.h"

namespace paceline::exchange {
namespace {

using testing::Commit;
using testing::Early;
using testing::Hosts;
using testing::Kept;
using testing::Member;
using testing::random_floats;
using testing::Told;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

// Numbers that no member of any commit changes. Their sums by shares in float32 are others.
constexpr std::array kUnchanged{1.0F, std::numeric_limits<float>::lowest(), 0.1F, -0.0F, 3.7F};

std::int64_t unchanged_place() {
  const ps::Layout layout = testing::model();
  const auto found = std::find_if(layout.tensors().begin(), layout.tensors().end(),
                                  [](const ps::TensorSpec& one) { return one.name == "norm.variance"; });
  return found->offset;
}

std::vector<float> with_unchanged(std::vector<float> gradient) {
  std::copy(kUnchanged.begin(), kUnchanged.end(), gradient.begin() + unchanged_place());
  return gradient;
}

void expect_unchanged(const std::vector<float>& weights) {
  for (std::size_t i = 0; i < kUnchanged.size(); ++i) {
    const float found = weights[static_cast<std::size_t>(unchanged_place()) + i];
    EXPECT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(kUnchanged[i]))
        << kUnchanged[i];
  }
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
    const std::uint64_t members = 1 + rng.below(12);
    for (std::uint64_t m = 0; m < members; ++m)
      commit.push_back({static_cast<int>(rng.below(3)), with_unchanged(random_floats(rng, hosts.floats()))});
  }
  hosts.apply(commits);
  const std::vector<float> expected = hosts.on_one_host(commits);
  for (int host = 0; host < 3; ++host) {
    const std::vector<float> found = hosts.read(host, Version(40));
    expect_near(found, expected);
    expect_unchanged(found);
  }
}

// ---- Gradients that are sent before they are in a commit ----

std::vector<Commit> commits_of(const std::vector<Told>& told) {
  std::vector<Commit> commits;
  for (const Told& one : told) {
    if (!one.commit.empty()) commits.push_back(one.commit);
  }
  return commits;
}

// All members but one are ready before that one. Their gradients go once, and the result is the same.
class EarlyGradients : public ::testing::TestWithParam<Kept> {};

TEST_P(EarlyGradients, GiveTheSameBits) {
  for (const int count : {2, 3, 4}) {
    constexpr std::array kFabrics{links::Fabric::kTcp, links::Fabric::kSealed, links::Fabric::kUcx};
    Hosts hosts(count, false, kFabrics[static_cast<std::size_t>(count) % kFabrics.size()], 1, 0, GetParam());
    Hosts plain(count, false, links::Fabric::kTcp, 1, 0, GetParam());
    Rng rng(2);
    std::vector<Told> told(5);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
    for (Told& one : told) {
      const auto last = static_cast<int>(rng.below(static_cast<std::uint64_t>(count)));
      for (int host = 0; host < count; ++host) {
        Member& member = one.commit.emplace_back(Member{host, random_floats(rng, hosts.floats())});
        if (host != last) member.early = EarlyNumber(++numbers[static_cast<std::size_t>(host)]);
      }
      for (int host = count - 1; host >= 0; --host) {
        const Member& member = one.commit[static_cast<std::size_t>(host)];
        if (host != last) one.early.push_back({host, member.early, member.gradient.data()});
      }
    }
    hosts.apply(told);
    std::vector<Commit> commits = commits_of(told);
    const std::vector<float> expected = hosts.on_one_host(commits);
    for (Commit& commit : commits) {
      for (Member& member : commit) member.early = {};
    }
    plain.apply(commits);
    for (int host = 0; host < count; ++host) {
      EXPECT_EQ(hosts.read(host, Version(5)), expected) << host;
      EXPECT_EQ(hosts.gradients_sent(host), plain.gradients_sent(host)) << host;
    }
  }
}

// The coordinator may put a host's newest number into a commit or into none, together with any other members.
TEST_P(EarlyGradients, MayBeInACommitOrInNoneWithAnyOtherMembers) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    constexpr int kHosts = 3;
    Hosts hosts(kHosts, true, links::Fabric::kSealed, 1, 0, GetParam());
    Rng rng(seed);
    std::vector<std::vector<float>> gradients;  // all announced ones
    gradients.reserve(1000);
    std::array<std::vector<Early>, kHosts> newest;  // one or none
    std::array<std::int64_t, kHosts> numbers{};
    std::vector<Told> told(60);
    for (Told& one : told) {
      for (std::uint64_t left = rng.below(4); left > 0; --left) {
        const auto host = rng.below(kHosts);
        gradients.push_back(random_floats(rng, hosts.floats()));
        newest[host] = {{static_cast<int>(host), EarlyNumber(++numbers[host]), gradients.back().data()}};
        one.early.push_back(newest[host].front());
      }
      for (std::uint64_t left = rng.below(4); left > 0; --left)
        one.commit.push_back({static_cast<int>(rng.below(kHosts)), random_floats(rng, hosts.floats())});
      for (auto& of_host : newest) {
        if (of_host.empty() || rng.below(2) == 0) continue;
        const Early early = of_host.front();
        of_host.clear();
        one.commit.push_back({early.host, {early.gradient, early.gradient + hosts.floats()}});
        one.commit.back().early = early.number;
      }
    }
    told.push_back({{}, {{0, random_floats(rng, hosts.floats())}}});
    hosts.apply(told);
    const std::vector<Commit> commits = commits_of(told);
    const std::vector<float> expected = hosts.on_one_host(commits);
    for (int host = 0; host < kHosts; ++host)
      expect_near(hosts.read(host, Version(std::ssize(commits))), expected);
  }
}

// The host's sum goes, and the earlier gradient does not get in the next one's way.
TEST_P(EarlyGradients, AreDroppedWhereTheirHostHasMoreMembers) {
  Hosts hosts(2, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(3);
  std::vector<Told> told(6);
  std::int64_t number = 0;
  for (Told& one : told) {
    for (const int host : {1, 0, 1}) one.commit.push_back({host, random_floats(rng, hosts.floats())});
    Member& early = one.commit[number % 2 == 0 ? 0 : 2];
    early.early = EarlyNumber(++number);
    one.early = {{1, early.early, early.gradient.data()}};
  }
  hosts.apply(told);
  const std::vector<float> expected = hosts.on_one_host(commits_of(told));
  for (int host = 0; host < 2; ++host) expect_near(hosts.read(host, Version(6)), expected);
}

// Their replicas left, and others have their samples. The memory of each goes once it has left its host,
// however late the others hear of them.
TEST_P(EarlyGradients, DelayNobodyIfNoCommitHasThem) {
  Hosts hosts(3, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(3);
  constexpr int kUnwanted = 6;
  std::vector<std::vector<float>> unwanted;
  for (int i = 0; i < kUnwanted; ++i) unwanted.push_back(random_floats(rng, hosts.floats()));
  Commit commit;
  for (const int host : {2, 1, 0}) commit.push_back({host, random_floats(rng, hosts.floats())});
  commit[1].early = EarlyNumber(kUnwanted + 1);
  std::vector<std::jthread> threads;
  for (int host = 0; host < 3; ++host) {
    threads.emplace_back([&, host] {
      for (int i = 0; i < kUnwanted; ++i) {
        if (host != 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        hosts.send_early(host, {1, EarlyNumber(i + 1), unwanted[std::size_t(i)].data()});
        if (host != 1) continue;
        EXPECT_TRUE(hosts.at(1).commits->flush().ok());
        unwanted[std::size_t(i)] = {};
      }
      hosts.send_early(host, {1, commit[1].early, commit[1].gradient.data()});
      EXPECT_TRUE(hosts.apply_one(host, Version(1), commit).ok());
      EXPECT_TRUE(hosts.at(host).commits->flush().ok());
    });
  }
  threads.clear();
  for (int host = 0; host < 3; ++host)
    EXPECT_EQ(hosts.read(host, Version(1)), hosts.on_one_host({commit})) << host;
}

// The version is made before the gradient's own host hears of the commit, when the worker's next gradient is
// already in the same memory.
TEST_P(EarlyGradients, AreNotReadAgainWhereNothingIsKept) {
  Hosts hosts(3, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(4);
  Commit commit;
  for (int host = 0; host < 3; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
  commit[1].early = EarlyNumber(1);
  const std::vector<float> expected = hosts.on_one_host({commit});
  for (int host = 0; host < 3; ++host) hosts.send_early(host, {1, EarlyNumber(1), commit[1].gradient.data()});
  if (GetParam() == Kept::kInOnePlace) {
    std::vector<std::jthread> threads;
    for (const int host : {0, 2})
      threads.emplace_back([&, host] { EXPECT_TRUE(hosts.apply_one(host, Version(1), commit).ok()); });
    threads.clear();
    EXPECT_EQ(hosts.read(0, Version(1)), expected);
    std::fill(commit[1].gradient.begin(), commit[1].gradient.end(), std::nanf(""));
    EXPECT_TRUE(hosts.apply_one(1, Version(1), commit).ok());
  } else {
    hosts.apply({commit});
  }
  for (int host = 0; host < 3; ++host) EXPECT_EQ(hosts.read(host, Version(1)), expected) << host;

  const auto reads = [&](int host, std::vector<HostMember> members) {
    return hosts.at(host).commits->reads(members.front(), members);
  };
  const HostMember early{.host = 1, .early = EarlyNumber(1)}, now{.host = 1}, other{.host = 2};
  HostMember not_sent = early;
  not_sent.early = EarlyNumber(2);
  EXPECT_EQ(reads(1, {early, other}), GetParam() == Kept::kEverywhere);
  EXPECT_TRUE(reads(1, {now, other}));
  EXPECT_TRUE(reads(1, {not_sent, other}));
  EXPECT_TRUE(reads(1, {early, other, now}));
}

// The worker reported too early that its gradient is ready. The commit has it under its number nevertheless.
TEST_P(EarlyGradients, GoWithTheirCommitIfTheyDidNotGoInTime) {
  Hosts hosts(2, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(4);
  Commit commit;
  for (int host = 0; host < 2; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
  commit[1].early = EarlyNumber(1);
  hosts.send_early(0, {1, EarlyNumber(1), nullptr});
  hosts.apply({commit});
  const std::vector<float> expected = hosts.on_one_host({commit});
  for (int host = 0; host < 2; ++host) EXPECT_EQ(hosts.read(host, Version(1)), expected) << host;
}

TEST_P(EarlyGradients, AreAnErrorIfTheirHostIsGone) {
  Hosts hosts(2, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(5);
  Commit commit;
  for (int host = 0; host < 2; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
  commit[1].early = EarlyNumber(1);
  std::jthread waits([&] {
    hosts.send_early(0, {1, EarlyNumber(1), nullptr});
    EXPECT_FALSE(hosts.apply_one(0, Version(1), commit).ok());
  });
  hosts.kill(1);
}

INSTANTIATE_TEST_SUITE_P(Keepers, EarlyGradients, ::testing::Values(Kept::kEverywhere, Kept::kInOnePlace),
                         [](const auto& where) {
                           return where.param == Kept::kEverywhere ? "Everywhere" : "InOnePlace";
                         });

class InOnePlace : public ::testing::TestWithParam<Kept> {};

TEST_P(InOnePlace, AnyMembersOfAnyHosts) {
  for (const int count : {2, 5}) {
    Hosts hosts(count, true, links::Fabric::kSealed, 1, count == 5 ? 0.5 : 0, GetParam());
    Rng rng(3);
    std::vector<Commit> commits;
    for (int v = 0; v < 12; ++v) {
      Commit& commit = commits.emplace_back();
      const std::uint64_t members = 1 + rng.below(7);
      for (std::uint64_t m = 0; m < members; ++m) {
        const auto host = static_cast<int>(rng.below(static_cast<std::uint64_t>(count)));
        commit.push_back({host, with_unchanged(random_floats(rng, hosts.floats()))});
      }
    }
    {
      // A thread waits for versions that other hosts get on another way.
      const std::jthread waits([&](const std::stop_token& stop) {
        Rng which(4);
        while (!stop.stop_requested()) {
          const auto host = static_cast<int>(which.below(static_cast<std::uint64_t>(count)));
          hosts.at(0).exchange->want(host, Version(static_cast<std::int64_t>(which.below(13))));
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
      hosts.apply(commits);
    }
    const std::vector<float> expected = hosts.on_one_host(commits);
    for (int host = 0; host < count; ++host) {
      const std::vector<float> found = hosts.read(host, Version(12));
      expect_near(found, expected);
      expect_unchanged(found);
    }
  }
}

// Some hosts read the versions that others pass on to them, and some do not.
TEST_P(InOnePlace, EveryVersionArrivesWhereSomebodyWaitsForIt) {
  constexpr int kHosts = 4;
  Hosts hosts(kHosts, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(8);
  std::vector<std::vector<float>> expected;
  std::vector<Commit> commits;
  for (std::int64_t v = 1; v <= 8; ++v) {
    Commit& commit = commits.emplace_back();
    for (int host = 1; host < kHosts; ++host) {
      if (rng.below(4) > 0) commit.push_back({host, random_floats(rng, hosts.floats())});
    }
    if (commit.empty()) commit.push_back({0, random_floats(rng, hosts.floats())});
    std::vector<std::jthread> threads;
    for (int host = 0; host < kHosts; ++host) {
      threads.emplace_back([&, host] {
        EXPECT_TRUE(hosts.apply_one(host, Version(v), commit).ok());
        EXPECT_TRUE(hosts.at(host).commits->flush().ok());
      });
    }
    threads.clear();
    const std::vector<float> now = hosts.on_one_host(commits);
    for (int host = 0; host < kHosts; ++host) {
      if (rng.below(2) == 0) expect_near(hosts.read(host, Version(v)), now);
    }
  }
}

TEST_P(InOnePlace, TellsWaitingHostsThatAnotherOneIsGone) {
  Hosts hosts(4, false, links::Fabric::kTcp, 1, 0, GetParam());
  Rng rng(5);
  Commit commit;
  for (const int host : {3, 1, 2}) commit.push_back({host, random_floats(rng, hosts.floats())});
  hosts.apply({commit});
  // Host 3 never sends its gradient: all hosts after it on the way wait, and so does the keeper.
  std::vector<std::jthread> threads;
  for (const int host : {0, 1, 2})
    threads.emplace_back([&, host] {
      const bool made = hosts.apply_one(host, Version(2), commit).ok();
      EXPECT_TRUE(!made || host != 0);
    });
  EXPECT_TRUE(hosts.at(3).commits->flush().ok());
  hosts.kill(3);
  threads.clear();
  EXPECT_EQ(hosts.at(0).failures, 1);
}

INSTANTIATE_TEST_SUITE_P(Sums, InOnePlace,
                         ::testing::Values(Kept::kInOnePlace, Kept::kInOnePlaceSummedOnTheWay),
                         [](const auto& tested) {
                           return tested.param == Kept::kInOnePlace ? "AtTheKeeper" : "OnTheWay";
                         });

// The traffic of the keeper's link with three hosts in a commit: one gradient and one copy of the weights.
TEST(CommitExchange, SumsAreMadeOnTheWayToTheKeeper) {
  for (const auto& [where, copies] :
       {std::pair(Kept::kInOnePlace, 3), std::pair(Kept::kInOnePlaceSummedOnTheWay, 1)}) {
    Hosts hosts(4, false, links::Fabric::kTcp, 1, 0, where);
    Rng rng(9);
    constexpr int kCommits = 10;
    std::vector<Commit> commits(kCommits);
    for (Commit& commit : commits) {
      for (const int host : {2, 3, 1}) commit.push_back({host, random_floats(rng, hosts.floats())});
    }
    std::int64_t first = 0;
    for (int v = 1; v <= kCommits; ++v) {
      std::vector<std::jthread> threads;
      for (int host = 0; host < 4; ++host)
        threads.emplace_back(
            [&, host] { EXPECT_TRUE(hosts.apply_one(host, Version(v), commits[std::size_t(v - 1)]).ok()); });
      threads.clear();
      for (const int host : {1, 2, 3}) hosts.read(host, Version(v));
      if (v == 1) first = hosts.weights_sent(0);
    }
    for (int host = 0; host < 4; ++host) EXPECT_TRUE(hosts.at(host).commits->flush().ok());
    const std::int64_t moved = hosts.moving_bytes();
    EXPECT_EQ(hosts.weights_sent(0) - first, (kCommits - 1) * copies * moved);
    std::int64_t received = 0;
    for (const int host : {1, 2, 3}) received += hosts.at(host).exchange->sent_bytes()[0].gradients;
    EXPECT_EQ(received, kCommits * copies * moved);
  }
}

// A member that a bound holds back will want a later version: this one is not sent to it.
TEST(CommitExchange, WeightsGoAsTheyAreMadeToMembersThatWaitForThem) {
  Hosts hosts(3, false, links::Fabric::kTcp, 1, 0, Kept::kInOnePlace);
  Rng rng(9);
  for (const int host : {1, 2}) hosts.read(host, Version(0));
  const std::int64_t first = hosts.weights_sent(0);
  const Commit commit = {{1, random_floats(rng, hosts.floats())},
                         {2, random_floats(rng, hosts.floats()), false}};
  hosts.apply({commit});
  hosts.read(1, Version(1));
  EXPECT_EQ(hosts.weights_sent(0) - first, hosts.moving_bytes()) << "to host 1 alone";
  EXPECT_EQ(hosts.read(2, Version(1)), hosts.on_one_host({commit})) << "once somebody there wants it";
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
  // The link between the two is there first: a host waits without limit for one that has not come yet.
  hosts.apply({commit});
  std::jthread one([&] { EXPECT_FALSE(hosts.apply_one(0, Version(2), commit).ok()); });
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

TEST(CommitExchange, TellsWaitingHostsThatAnotherOneIsGone) {
  Hosts hosts(3);
  Rng rng(5);
  Commit commit;
  for (int host = 0; host < 3; ++host) commit.push_back({host, random_floats(rng, hosts.floats())});
  hosts.apply({commit});
  std::jthread waits([&] {
    const absl::Status status = hosts.apply_one(0, Version(2), commit);
    EXPECT_FALSE(status.ok());
    // The error may also be about host 1, which has ended for the same reason.
    EXPECT_NE(status.message().find("the peer is gone"), std::string::npos) << status;
  });
  EXPECT_TRUE(hosts.at(2).commits->flush().ok());
  hosts.kill(2);
  waits.join();
  EXPECT_EQ(hosts.at(0).failures, 1);
}

}  // namespace
}  // namespace paceline::exchange
