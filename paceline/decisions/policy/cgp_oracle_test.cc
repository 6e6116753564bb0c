// Cgp against a second, deliberately dumber implementation: random facts must give the same commits, releases
// and timers.
#include "paceline/decisions/policy/testing/cgp_oracle.h"
#include "paceline/base/testing/effort.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::policy {
namespace {

using policy::testing::CgpAnswer;
using policy::testing::CgpOracle;
using policy::testing::RandomWorld;
using policy::testing::WorldFact;

std::string to_text(const CgpAnswer& answer) {
  std::string text;
  for (const auto& members : answer.commits) {
    text += " commit";
    for (const Contribution& member : members) text += fmt::format(" {}@{}", member.replica, member.clock);
  }
  for (const Contribution& one : answer.discards)
    text += fmt::format(" discard {}@{}", one.replica, one.clock);
  for (const ReplicaId replica : answer.releases) text += fmt::format(" release {}", replica);
  return text;
}

CgpAnswer answer_of(const std::vector<Order>& orders) {
  CgpAnswer answer;
  for (const Order& order : orders) {
    if (const auto* commit = std::get_if<Commit>(&order))
      answer.commits.emplace_back(commit->members.begin(), commit->members.end());
    if (const auto* release = std::get_if<Release>(&order)) answer.releases.push_back(release->replica);
    if (const auto* discard = std::get_if<Discard>(&order)) answer.discards.push_back(discard->contribution);
    if (const auto* wake = std::get_if<WakeAt>(&order)) answer.wake = wake->at;
  }
  std::sort(answer.releases.begin(), answer.releases.end());
  return answer;
}

// The policy, and the timer that it asked for last.
class Asked {
 public:
  explicit Asked(const PolicySpec& spec) : policy_(make_policy(spec)) {}

  const std::vector<Order>& take(const WorldFact& fact) {
    if (fact.what == WorldFact::What::kRing) wake_.reset();
    tell(*policy_, fact, orders_);
    if (const auto asked = answer_of(orders_.list()).wake) wake_ = asked;
    return orders_.list();
  }
  // A timer for which no open group waits may still ring.
  bool wakes_at(std::optional<Time> expected) const {
    return !expected || (wake_ && std::chrono::abs(*wake_ - *expected) < std::chrono::microseconds(1));
  }

 private:
  std::unique_ptr<SyncPolicy> policy_;
  Orders orders_{Version(0)};
  std::optional<Time> wake_;
};

// Empty when both say the same to the end.
std::string difference(const CgpOptions& options, std::uint64_t seed, int steps) {
  // Costs of groups that tie to the last bit are cut by rounding: only the natural grouping goes in even
  // steps.
  RandomWorld world(seed, seed % 3 == 0 && options.grouping == Grouping::kNatural && options.patience == 0);
  CgpOracle oracle(options);
  Asked asked(options);
  std::string history;
  for (int step = 0; step < steps; ++step) {
    const WorldFact fact = world.next();
    history += to_string(fact) + "\n";
    const CgpAnswer expected = oracle.take(fact);
    const std::vector<Order>& orders = asked.take(fact);
    const std::string found = to_text(answer_of(orders));
    if (found != to_text(expected) || !asked.wakes_at(expected.wake)) {
      const std::string wake = expected.wake ? fmt::format("{}", to_seconds(*expected.wake)) : "any";
      return fmt::format("{}it should be:{}, wake {}\nit is:{}", history, to_text(expected), wake, found);
    }
    if (!found.empty()) history += "   " + found + "\n";
    world.follow(orders);
  }
  return {};
}

class CgpOracles : public ::testing::TestWithParam<const char*> {};

TEST_P(CgpOracles, GiveTheSameOrders) {
  const auto options = std::get<CgpSpec>(parse_policy(GetParam()).value());
  for (std::uint64_t seed = 0; seed < effort::part_of(300); ++seed) {
    ASSERT_EQ(difference(options, seed, 100), "") << GetParam() << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, CgpOracles,
    ::testing::Values("cgp", "cgp:k_min=2", "cgp:k_min=3:k_max=4", "cgp:k_max=2", "cgp:k_max=1", "cgp:S=0",
                      "cgp:S=1:k_max=1", "cgp:S=2:k_max=2", "cgp:S=1:k_min=3", "cgp:S=3:k_min=2:k_max=2",
                      "cgp:k_min=9:wait_max=500ms", "cgp:wait_max=0ms", "cgp:k_min=3:S=4:wait_max=800ms",
                      "cgp:S=2:k_max=2:wait_max=900ms:k_min=2", "cgp:k_min=9:wait_max=forever",
                      "cgp:k_min=2:wait_max=forever:S=2", "cgp:patience=0", "cgp:patience=0.4",
                      "cgp:patience=1", "cgp:patience=1:d=0.4", "cgp:patience=0.5:d=0.8",
                      "cgp:patience=0.3:k_max=3", "cgp:patience=0.5:S=2:k_min=2",
                      "cgp:patience=1:wait_max=300ms", "cgp:grouping=window",
                      "cgp:grouping=window:k_min=2:S=3", "cgp:grouping=window:wait_max=300ms:k_max=3",
                      "cgp:grouping=dp", "cgp:grouping=dp:k_min=2:S=3",
                      "cgp:grouping=dp:wait_max=300ms:k_max=3"));

}  // namespace
}  // namespace paceline::policy
