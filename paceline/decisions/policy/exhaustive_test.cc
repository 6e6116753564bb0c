// Every order in which three replicas can finish four iterations each, under every policy; the same with one
// of them leaving at every point; and two iterations each with one joining and one leaving at every point.
// A replica that has done its iterations takes no more part but stays live.
#include <cctype>
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/base/testing/every_choice.h"
#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using effort::kMostWays;
using paceline::testing::EveryChoice;
using policy::testing::CheckedPolicy;

constexpr int kReplicas = 3;
constexpr ReplicaId kJoiner{kReplicas};

// The changes of membership that a run tries, and the iterations of each replica.
struct Weather {
  bool leave = false;  // one of the replicas, at some point
  bool join = false;   // another replica, in the same way
  Clock iterations{4};
};

// Whether some replica's iterations may take no part: they are discarded, or it has joined a group and is
// behind the others in it. Then the others have to go on until it has done its iterations too.
bool uneven(const PolicySpec& spec) {
  return std::holds_alternative<BackupSpec>(spec) || std::holds_alternative<GroupsSpec>(spec);
}

std::vector<ReplicaId> live(const CheckedPolicy& policy) {
  std::vector<ReplicaId> ids;
  for (int id = 0; id <= kReplicas; ++id) {
    if (policy.live(ReplicaId(id))) ids.emplace_back(id);
  }
  return ids;
}

// The replicas that compute and have iterations left.
std::vector<ReplicaId> running(const CheckedPolicy& policy, Clock iterations) {
  std::vector<ReplicaId> ids = live(policy);
  std::erase_if(ids, [&](ReplicaId replica) {
    return !policy.computing(replica) || policy.clock(replica) >= iterations;
  });
  return ids;
}

// Everybody that computes is ready, so often that all can do their iterations and be late every other time.
std::int64_t go_on(CheckedPolicy& policy, Time now, Clock iterations) {
  std::int64_t finished = 0;
  for (Clock sweep{0}; sweep.value() < 2 * iterations.value(); sweep = sweep.next()) {
    for (const ReplicaId replica : live(policy)) {
      if (!policy.computing(replica)) continue;
      policy.ready(replica, now += std::chrono::seconds(1));
      ++finished;
    }
  }
  return finished;
}

// The fault of a run in which no replica runs any more; empty if there is none.
std::string complaint_at_the_end(const CheckedPolicy& policy, std::int64_t finished, Clock iterations,
                                 bool uneven) {
  if (!policy.broken().empty()) return policy.broken();
  for (const ReplicaId replica : live(policy)) {
    if (policy.clock(replica) < iterations) return fmt::format("replica {} waits for ever", replica);
  }
  if (!uneven && policy.pending() != 0) return "a gradient is never committed";
  if (!uneven && policy.discarded() != 0) return "a gradient is discarded";
  const std::int64_t accounted = policy.committed() + policy.discarded() + policy.pending();
  if (accounted != finished) return fmt::format("{} of {} accounted for", accounted, finished);
  return {};
}

// How long a step takes: what a policy that measures intervals will see.
std::chrono::seconds step_time(std::size_t tempo, int step, std::size_t pick) {
  if (tempo == 0) return std::chrono::seconds(1);
  if (tempo == 1) return std::chrono::seconds(1 + 3 * pick);
  return std::chrono::seconds(step % 3 == 0 ? 7 : 1);
}

// One run, each step chosen: which replica is ready next, or (once) which leaves, or (once) that another
// joins.
std::string run_once(const PolicySpec& spec, EveryChoice& choose, const Weather& weather) {
  CheckedPolicy policy(spec);
  Time now{};
  const std::size_t tempo = choose.below(std::holds_alternative<DsspSpec>(spec) && !weather.join ? 3 : 1);
  for (int id = 0; id < kReplicas; ++id) policy.join(ReplicaId(id), now);
  std::int64_t finished = 0;
  bool may_leave = weather.leave;
  bool may_join = weather.join;
  for (int step = 0;; ++step) {
    const std::vector<ReplicaId> ready = running(policy, weather.iterations);
    if (!policy.broken().empty() || ready.empty()) break;
    const std::vector<ReplicaId> leavers = may_leave ? live(policy) : std::vector<ReplicaId>{};
    const std::size_t pick = choose.below(ready.size() + leavers.size() + (may_join ? 1 : 0));
    now += step_time(tempo, step, pick);
    if (pick < ready.size()) {
      policy.ready(ready[pick], now);
      ++finished;
    } else if (pick < ready.size() + leavers.size()) {
      const std::int64_t before = policy.committed() + policy.discarded() + policy.pending();
      policy.leave(leavers[pick - ready.size()], now);
      // A gradient that the replica had finished and that is not committed is void.
      finished -= before - (policy.committed() + policy.discarded() + policy.pending());
      may_leave = false;
    } else {
      policy.join(kJoiner, now);
      may_join = false;
    }
  }
  const bool goes_on = uneven(spec) || weather.join;
  if (goes_on && policy.broken().empty()) finished += go_on(policy, now, weather.iterations);
  return complaint_at_the_end(policy, finished, weather.iterations, goes_on);
}

int run_all(const std::string& text, const Weather& weather, std::int64_t most = kMostWays) {
  const PolicySpec spec = parse_policy(text).value();
  int runs = 0;
  for (EveryChoice choose; runs < most && choose.again(); ++runs) {
    const std::string complaint = run_once(spec, choose, weather);
    if (!complaint.empty()) {
      ADD_FAILURE() << text << ": " << complaint << "\n" << choose.path();
      break;
    }
  }
  return runs;
}

class Exhaustive : public ::testing::TestWithParam<const char*> {};

TEST_P(Exhaustive, KeepsItsPromisesInEveryOrder) { run_all(GetParam(), {}); }
TEST_P(Exhaustive, KeepsItsPromisesWhenAReplicaLeavesAtAnyPoint) { run_all(GetParam(), {.leave = true}); }
class ExhaustiveWithAJoiner : public ::testing::TestWithParam<const char*> {};

TEST_P(ExhaustiveWithAJoiner, KeepsItsPromisesWhenOneJoinsAndOneLeavesAtAnyPoint) {
  run_all(GetParam(), {.leave = true, .join = true, .iterations = Clock(2)});
}

std::string name_of(const ::testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, Exhaustive,
                         ::testing::Values("bsp", "asp", "ssp:0", "ssp:1", "ssp:2", "dssp:0-2", "dssp:1-3",
                                           "dssp:0-2:printed", "dssp:1-3:printed", "dssp:0-2:transient",
                                           "backup:1", "local-sgd:4", "groups:2+1:bsp", "groups:2+1:asp",
                                           "groups:1+2:ssp:1", "groups:2+1:dssp:0-2", "groups:2+1:backup:1"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Policies, ExhaustiveWithAJoiner,
                         ::testing::Values("bsp", "ssp:1", "backup:1", "backup:2", "groups:2+1:bsp",
                                           "groups:2+2:bsp", "groups:2+1:asp", "groups:1+2:ssp:0",
                                           "groups:2+2:ssp:1", "groups:2+2:dssp:0-2", "groups:2+1:backup:1",
                                           "groups:2+2:elastic-bsp:2"),
                         name_of);

// The enumeration is complete: the number of orders is known for two of the policies.
TEST(Exhaustive, CountsTheOrders) {
  EXPECT_EQ(run_all("bsp", {}, INT64_MAX), 6 * 6 * 6 * 6);    // 3! a round
  EXPECT_EQ(run_all("ssp:0", {}, INT64_MAX), 6 * 6 * 6 * 6);  // the same lockstep
  EXPECT_EQ(run_all("asp", {}, INT64_MAX), 34650);            // 12! / (4! 4! 4!)
}

}  // namespace
}  // namespace paceline::policy
