// Every order in which three replicas can finish four iterations each, under every policy, and the same with
// one of them leaving at every point. Whoever has done its four takes no more part but stays live.
#include <cctype>
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/every_choice.h"
#include "paceline/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using paceline::testing::EveryChoice;
using policy::testing::CheckedPolicy;

constexpr int kReplicas = 3;
constexpr Clock kIterations{4};

// Those that compute and have iterations left.
std::vector<ReplicaId> running(const CheckedPolicy& policy) {
  std::vector<ReplicaId> ids;
  for (int id = 0; id < kReplicas; ++id) {
    const ReplicaId replica(id);
    if (policy.computing(replica) && policy.clock(replica) < kIterations) ids.push_back(replica);
  }
  return ids;
}

// What is wrong with a run in which nobody runs any more; empty when nothing is.
std::string complaint_at_the_end(const CheckedPolicy& policy, std::int64_t finished) {
  if (!policy.broken().empty()) return policy.broken();
  for (int id = 0; id < kReplicas; ++id) {
    const ReplicaId replica(id);
    if (policy.live(replica) && policy.clock(replica) < kIterations)
      return fmt::format("replica {} waits for ever", id);
  }
  if (policy.pending() != 0) return "a gradient is never committed";
  if (policy.committed() != finished) return fmt::format("{} of {} committed", policy.committed(), finished);
  return {};
}

// How long a step takes: what a policy that measures intervals will see.
std::chrono::seconds step_time(std::size_t tempo, int step, std::size_t pick) {
  if (tempo == 0) return std::chrono::seconds(1);
  if (tempo == 1) return std::chrono::seconds(1 + 3 * pick);
  return std::chrono::seconds(step % 3 == 0 ? 7 : 1);
}

// One run, each step chosen: who is ready next, or (once) who leaves.
std::string run_once(const PolicySpec& spec, EveryChoice& choose, bool with_departure) {
  CheckedPolicy policy(spec);
  Time now{};
  const std::size_t tempo = choose.below(std::holds_alternative<DsspSpec>(spec) ? 3 : 1);
  for (int id = 0; id < kReplicas; ++id) policy.join(ReplicaId(id), now);
  std::int64_t finished = 0;
  bool may_leave = with_departure;
  for (int step = 0;; ++step) {
    const std::vector<ReplicaId> ready = running(policy);
    if (!policy.broken().empty() || ready.empty()) break;
    const std::size_t pick = choose.below(ready.size() + (may_leave ? kReplicas : 0));
    now += step_time(tempo, step, pick);
    if (pick < ready.size()) {
      policy.ready(ready[pick], now);
      ++finished;
    } else {
      const ReplicaId gone(static_cast<int>(pick - ready.size()));
      const std::int64_t before = policy.pending();
      const std::int64_t committed = policy.committed();
      policy.leave(gone, now);
      // What it had finished and nobody committed is void.
      finished -= before - policy.pending() - (policy.committed() - committed);
      may_leave = false;
    }
  }
  return complaint_at_the_end(policy, finished);
}

int run_all(const std::string& text, bool with_departure) {
  const PolicySpec spec = parse_policy(text).value();
  int runs = 0;
  for (EveryChoice choose; choose.again(); ++runs) {
    const std::string complaint = run_once(spec, choose, with_departure);
    if (!complaint.empty()) {
      ADD_FAILURE() << text << ": " << complaint << "\n" << choose.path();
      break;
    }
  }
  return runs;
}

class Exhaustive : public ::testing::TestWithParam<const char*> {};

TEST_P(Exhaustive, KeepsItsPromisesInEveryOrder) { run_all(GetParam(), false); }
TEST_P(Exhaustive, AndWhenAReplicaLeavesAtAnyPoint) { run_all(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(Policies, Exhaustive,
                         ::testing::Values("bsp", "asp", "ssp:0", "ssp:1", "ssp:2", "dssp:0-2", "dssp:1-3",
                                           "dssp:0-2:printed", "dssp:1-3:printed"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

// That the enumeration really is one: the number of orders is known for two of the policies.
TEST(Exhaustive, CountsTheOrders) {
  EXPECT_EQ(run_all("bsp", false), 6 * 6 * 6 * 6);    // 3! a round
  EXPECT_EQ(run_all("ssp:0", false), 6 * 6 * 6 * 6);  // the same lockstep
  EXPECT_EQ(run_all("asp", false), 34650);            // 12! / (4! 4! 4!)
}

}  // namespace
}  // namespace paceline::policy
