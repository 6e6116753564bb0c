// Policies that are other policies in their limits: the same random facts must give the same orders, in the
// same order. Only the reasons may differ.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using policy::testing::CheckedPolicy;

struct Pair {
  const char* text;
  const char* same_as;
  // Whether the two may be compared when one takes another one's place. If every replica is a group, the
  // inner policy knows it by the number of its place, and ties go by number.
  bool places_change_hands = true;
};

class Degenerate : public ::testing::TestWithParam<Pair> {};

std::vector<std::string> without_reasons(const std::vector<Order>& orders) {
  std::vector<std::string> lines;
  for (const Order& order : orders) {
    const std::string line = testing::to_string(order);
    lines.push_back(line.substr(0, line.find(": ")));
  }
  return lines;
}

// Two policies that are given the same facts.
class SideBySide {
 public:
  SideBySide(const Pair& pair, std::uint64_t seed)
      : pair_(pair),
        one_(parse_policy(pair.text).value()),
        other_(parse_policy(pair.same_as).value()),
        rng_(seed) {}

  // The first difference between the two; empty if there is none.
  const std::string& run() {
    const std::uint64_t at_the_start = 1 + rng_.below(4);
    for (std::uint64_t i = 0; i < at_the_start; ++i) join();
    for (int step = 0; step < 100 && differ_.empty(); ++step) {
      now_ += std::chrono::milliseconds(rng_.below(2000));
      if (live_.empty() || rng_.below(25) == 0) {
        join();
      } else if (rng_.below(25) == 0) {
        leave();
      } else {
        ready();
      }
    }
    return differ_;
  }

 private:
  void join() {
    if (next_ == 6 || (left_ && !pair_.places_change_hands)) return;
    live_.emplace_back(next_++);
    compare(one_.join(live_.back(), now_), other_.join(live_.back(), now_));
  }
  void leave() {
    const ReplicaId gone = live_[rng_.below(live_.size())];
    std::erase(live_, gone);
    left_ = true;
    compare(one_.leave(gone, now_), other_.leave(gone, now_));
  }
  void ready() {
    std::vector<ReplicaId> computing = live_;
    std::erase_if(computing, [&](ReplicaId replica) { return !other_.computing(replica); });
    if (computing.empty()) return;
    const ReplicaId replica = computing[rng_.below(computing.size())];
    compare(one_.ready(replica, now_), other_.ready(replica, now_));
  }
  void compare(const std::vector<Order>& one, const std::vector<Order>& other) {
    if (without_reasons(one) != without_reasons(other)) differ_ = fmt::format("at {} s", to_seconds(now_));
    if (!one_.broken().empty()) differ_ = one_.broken();
  }

  const Pair pair_;
  CheckedPolicy one_;
  CheckedPolicy other_;
  Rng rng_;
  Time now_{};
  std::vector<ReplicaId> live_;
  int next_ = 0;
  bool left_ = false;
  std::string differ_;
};

TEST_P(Degenerate, GivesTheSameOrders) {
  for (std::uint64_t seed = 0; seed < effort::part_of(500); ++seed) {
    SideBySide both(GetParam(), seed);
    ASSERT_EQ(both.run(), "") << GetParam().text << " and " << GetParam().same_as << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(NoBackups, Degenerate, ::testing::Values(Pair{"backup:0", "bsp"}));
INSTANTIATE_TEST_SUITE_P(OneThreshold, Degenerate,
                         ::testing::Values(Pair{"dssp:0-0", "ssp:0"}, Pair{"dssp:3-3", "ssp:3"},
                                           Pair{"dssp:3-3:transient", "ssp:3"}));
INSTANTIATE_TEST_SUITE_P(OneGroupOfAll, Degenerate,
                         ::testing::Values(Pair{"groups:1:bsp", "bsp"}, Pair{"groups:6:asp", "bsp"},
                                           Pair{"groups:2:ssp:0", "bsp"}, Pair{"groups:4:ssp:3", "bsp"},
                                           Pair{"groups:3:dssp:3-15", "bsp"},
                                           Pair{"groups:3:elastic-bsp:4", "bsp"},
                                           Pair{"groups:2:backup:1", "bsp"}));
INSTANTIATE_TEST_SUITE_P(GroupsOfOne, Degenerate,
                         ::testing::Values(Pair{"groups:1+1+1+1+1+1:bsp", "bsp", false},
                                           Pair{"groups:1+1+1+1+1+1:asp", "asp", false},
                                           Pair{"groups:1+1+1+1+1+1:ssp:1", "ssp:1", false},
                                           Pair{"groups:1+1+1+1+1+1:dssp:1-4", "dssp:1-4", false},
                                           Pair{"groups:1+1+1+1+1+1:dssp:1-4:printed", "dssp:1-4:printed",
                                                false},
                                           Pair{"groups:1+1+1+1+1+1:elastic-bsp:4", "elastic-bsp:4", false},
                                           Pair{"groups:1+1+1+1+1+1:backup:1", "backup:1", false}));

}  // namespace
}  // namespace paceline::policy
