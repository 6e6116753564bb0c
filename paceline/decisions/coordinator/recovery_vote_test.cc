// The vote's result for all that up to four servers can say, compared with the definition; and senseless
// ballots are refused, whatever their bytes.
#include "paceline/decisions/coordinator/recovery_vote.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/records/store/controller_state_json.h"

namespace paceline::coordinator {
namespace {

constexpr Version kNewest{9};

control::ControllerState state_of(std::int64_t version) {
  control::ControllerState state;
  state.version = Version(version);
  state.ledger.next = 10 * version;
  return state;
}

Ballot ballot(int server, int servers, std::int64_t certain, std::int64_t made) {
  Ballot message;
  message.attempt = "run 3";
  message.shard = server;
  message.shard_count = servers;
  message.copies = 2;
  message.published = Version(certain);
  message.made = Version(made);
  message.state = store::to_text(state_of(made));
  message.elapsed = Duration(100 * made);
  return message;
}

RecoveryVote versions(int servers) {
  return {shards_kept(servers, 2), "run 3", kNewest, store::controller_state_from_text};
}

using Said = std::pair<std::int64_t, std::int64_t>;  // certain, made

void expect_right(const std::vector<std::optional<Said>>& said) {
  const int servers = static_cast<int>(said.size());
  const auto kept = shards_kept(servers, 2);
  RecoveryVote all = versions(servers);
  std::int64_t published = 0;
  for (int i = 0; i < servers; ++i) {
    const auto& one = said[static_cast<std::size_t>(i)];
    if (!one) continue;
    EXPECT_TRUE(all.came(ServerId(i), ballot(i, servers, one->first, one->second)).ok());
    published = std::max(published, one->first);
  }
  // A server that is behind a published version cannot make that version, and no older one is complete any
  // more.
  std::set<ShardId> shards;
  std::int64_t made = kNewest.value();
  const auto counts = [&](std::size_t i) { return said[i] && said[i]->second >= published; };
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (!counts(i)) continue;
    const std::vector<ShardId>& here = kept[ServerId(static_cast<std::int32_t>(i))];
    shards.insert(here.begin(), here.end());
    made = std::min(made, said[i]->second);
  }
  const auto found = all.found();
  ASSERT_TRUE(found.ok());
  const bool whole = static_cast<int>(shards.size()) == servers;
  ASSERT_EQ(found->has_value(), whole);
  if (!whole) return;
  EXPECT_GE(made, published);
  EXPECT_EQ((*found)->snapshot.state, state_of(made));
  EXPECT_EQ((*found)->snapshot.elapsed, Duration(100 * made));
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ((*found)->holders[ServerId(static_cast<std::int32_t>(i))], counts(i));
    EXPECT_TRUE(!counts(i) || said[i]->first == made || said[i]->second == made);
  }
}

// A coordinator died while it had version 5 written by two of three servers, who have every shard. The third
// one, which never made it, came too late for it, and comes now.
TEST(RecoveryVote, LeavesOutAServerThatIsBehind) {
  RecoveryVote all = versions(3);
  EXPECT_TRUE(all.came(ServerId(1), ballot(1, 3, 4, 4)).ok());
  EXPECT_TRUE(all.came(ServerId(2), ballot(2, 3, 5, 5)).ok());
  EXPECT_FALSE(all.found()->has_value()) << "shard 0 is on servers 0 and 1";
  EXPECT_TRUE(all.came(ServerId(0), ballot(0, 3, 4, 5)).ok());
  const auto found = all.found();
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->snapshot.state.version, Version(5));
  EXPECT_EQ((*found)->holders, (IdVector<ServerId, bool>{true, false, true}));
}

TEST(RecoveryVote, FindsTheNewestVersionThatAllCanMakeIfTheyHaveEveryShard) {
  const std::vector<std::optional<Said>> possible = {std::nullopt, Said(1, 1), Said(1, 2),
                                                     Said(2, 2),   Said(2, 3), Said(3, 3)};
  for (std::size_t servers = 2; servers <= 4; ++servers) {
    std::size_t cases = 1;
    for (std::size_t i = 0; i < servers; ++i) cases *= possible.size();
    for (std::size_t number = 0; number < cases; ++number) {
      std::vector<std::optional<Said>> said;
      for (std::size_t rest = number; said.size() < servers; rest /= possible.size())
        said.push_back(possible[rest % possible.size()]);
      expect_right(said);
    }
  }
}

TEST(RecoveryVote, AnotherAttemptDoesNotCount) {
  RecoveryVote all = versions(2);
  Ballot other = ballot(0, 2, 4, 5);
  other.attempt = "run 2";
  EXPECT_TRUE(all.came(ServerId(0), other).ok());
  EXPECT_TRUE(all.came(ServerId(1), Ballot()).ok());
  EXPECT_FALSE(all.found()->has_value());
}

TEST(RecoveryVote, RefusesAndForgetsAnImpossibleBallot) {
  const auto refused = [](auto change) {
    RecoveryVote all = versions(2);
    EXPECT_TRUE(all.came(ServerId(1), ballot(1, 2, 4, 5)).ok());
    Ballot message = ballot(1, 2, 4, 5);
    change(message);
    return !all.came(ServerId(1), message).ok() && !all.found()->has_value();
  };
  EXPECT_FALSE(refused([](Ballot&) {}));
  EXPECT_TRUE(refused([](Ballot& one) { one.shard = 0; }));
  EXPECT_TRUE(refused([](Ballot& one) { one.shard_count = 3; }));
  EXPECT_TRUE(refused([](Ballot& one) { one.copies = 1; }));
  EXPECT_TRUE(refused([](Ballot& one) { one.published = Version(3); }));
  EXPECT_TRUE(refused([](Ballot& one) { one.published = Version(6); }));
  EXPECT_TRUE(refused([](Ballot& one) { one.published = Version(INT64_MAX); }));
  EXPECT_TRUE(refused([](Ballot& one) { one.elapsed = Duration(-1); }));
  EXPECT_TRUE(refused([](Ballot& one) { one.state = ""; }));
  EXPECT_TRUE(refused([](Ballot& one) { one.state = store::to_text(state_of(4)); }));
  // the attempt did not record that version
  EXPECT_TRUE(refused([](Ballot& one) { one = ballot(1, 2, 9, 10); }));
  EXPECT_TRUE(refused([](Ballot& one) { one = ballot(1, 2, -1, 0); }));
}

TEST(RecoveryVote, TwoStatesOfOneVersionCannotBothBeRight) {
  RecoveryVote all = versions(2);
  Ballot other = ballot(0, 2, 5, 5);
  control::ControllerState state = state_of(5);
  state.ledger.next = 7;
  other.state = store::to_text(state);
  EXPECT_TRUE(all.came(ServerId(0), other).ok());
  EXPECT_TRUE(all.came(ServerId(1), ballot(1, 2, 5, 5)).ok());
  EXPECT_FALSE(all.found().ok());
}

TEST(RecoveryVote, NoBytesAreBelieved) {
  Rng rng(3);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    Ballot message = ballot(1, 2, 4, 5);
    for (std::uint64_t changes = rng.below(4); changes > 0; --changes) {
      const auto number = static_cast<std::int32_t>(rng.below(10)) - 2;
      switch (rng.below(8)) {
        case 0:
          message.shard = number;
          break;
        case 1:
          message.shard_count = number;
          break;
        case 2:
          message.copies = number;
          break;
        case 3:
          message.published = Version(number);
          break;
        case 4:
          message.made = Version(number);
          break;
        case 5:
          message.elapsed = Duration(number);
          break;
        default:
          message.state[rng.below(message.state.size())] = static_cast<char>(rng.below(256));
      }
    }
    RecoveryVote all = versions(2);
    if (!all.came(ServerId(1), message).ok()) continue;
    const auto found = all.found();
    ASSERT_TRUE(found.ok());
    if (!*found) continue;
    EXPECT_EQ((*found)->snapshot.state.version, Version(5));
    ++accepted;
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace paceline::coordinator
