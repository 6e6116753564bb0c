// Counts how many arrivals CGP looks at for a decision. The number must not grow with that of the replicas.
#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/policy/cgp.h"

namespace paceline::policy {
namespace {

// Three in ten replicas take 230 ms and the others 100 ms, with jitter. Updates take no time.
class World {
 public:
  World(std::int32_t replicas, double patience)
      : cgp_({.patience = patience}), clocks_(static_cast<std::size_t>(replicas), Clock(0)) {
    for (std::int32_t i = 0; i < replicas; ++i) {
      cgp_.joined(Time{}, {ReplicaId(i), Clock(0)}, orders_);
      carry_out(Time{});
    }
  }

  // The mean over so many facts.
  double looked_at_a_fact(std::int64_t facts) {
    const std::int64_t before = cgp_.arrivals().looked_at();
    for (std::int64_t i = 0; i < facts; ++i) step();
    return static_cast<double>(cgp_.arrivals().looked_at() - before) / static_cast<double>(facts);
  }

 private:
  static constexpr std::int32_t kTimer = -1;

  void step() {
    const auto [at, who] = events_.top();
    events_.pop();
    if (who == kTimer) {
      cgp_.timer(at, orders_);
    } else {
      Clock& clock = clocks_[static_cast<std::size_t>(who)];
      clock = clock.next();
      cgp_.ready(at, {ReplicaId(who), clock, orders_.latest(), 1, Duration(1)}, orders_);
    }
    carry_out(at);
  }

  void carry_out(Time now) {
    while (!orders_.list().empty()) {
      orders_.move_to(taken_);
      for (const Order& order : taken_) {
        if (const auto* release = std::get_if<Release>(&order))
          events_.emplace(now + iteration(release->replica.value()), release->replica.value());
        if (const auto* wake = std::get_if<WakeAt>(&order)) events_.emplace(wake->at, kTimer);
        if (const auto* commit = std::get_if<Commit>(&order)) cgp_.completed(now, {commit->version}, orders_);
      }
    }
  }

  Duration iteration(std::int32_t replica) {
    const bool slow = replica % 10 < 3;
    return from_seconds((slow ? 0.23 : 0.1) * (1 + (slow ? 0.2 : 0.1) * std::max(-3.0, rng_.normal())));
  }

  Cgp cgp_;
  Orders orders_{Version(0)};
  std::vector<Order> taken_;
  std::vector<Clock> clocks_;
  using Event = std::pair<Time, std::int32_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Rng rng_{1};
};

// The most that was seen is 93, with 1,000 replicas. A look at all that patience may look at is 256.
constexpr double kMost = 128;

class CgpCost : public ::testing::TestWithParam<double> {};

TEST_P(CgpCost, DoesNotGrowWithTheNumberOfReplicas) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  for (const std::int32_t replicas : {100, 1'000, 4'000}) {
    World world(replicas, GetParam());
    world.looked_at_a_fact(10 * replicas);  // the purse fills, and intervals are learnt
    const double looked_at = world.looked_at_a_fact(20'000);
    RecordProperty("looked_at_with_" + std::to_string(replicas), std::to_string(looked_at));
    EXPECT_LE(looked_at, kMost) << replicas << " replicas";
  }
}

INSTANTIATE_TEST_SUITE_P(Patience, CgpCost, ::testing::Values(0, 0.05, 0.1, 0.5, 1));

}  // namespace
}  // namespace paceline::policy
