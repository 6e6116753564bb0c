// How many decisions a second each policy makes, alone, with few and with very many replicas: one decision is
// one Ready fact and the orders it gives. Speeds differ (1× to 4×), so that releases are held and granted.
#include <chrono>
#include <queue>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

struct Arrival {
  Time at;
  ReplicaId replica;
  friend bool operator>(const Arrival& a, const Arrival& b) {
    return std::pair(a.at, a.replica) > std::pair(b.at, b.replica);
  }
};

// A cluster with free communication: the smallest world a policy can live in.
class Cluster {
 public:
  Cluster(const policy::PolicySpec& spec, std::int32_t replicas)
      : policy_(policy::make_policy(spec)), orders_(Version(0)) {
    Rng rng(1);
    clocks_.assign(static_cast<std::size_t>(replicas), Clock(0));
    for (std::int32_t i = 0; i < replicas; ++i) {
      intervals_.push_back(from_seconds(0.1 * (1 + 3 * rng.uniform())));
      policy_->joined(Time{}, {ReplicaId(i), Clock(0)}, orders_);
    }
    carry_out(Time{});
  }

  // Seconds that `decisions` took, the queue of arrivals included.
  double run(std::int64_t decisions) {
    const auto start = steady_clock::now();
    for (std::int64_t i = 0; i < decisions; ++i) {
      const Arrival next = arrivals_.top();
      arrivals_.pop();
      const auto index = static_cast<std::size_t>(next.replica.value());
      clocks_[index] = clocks_[index].next();
      policy_->ready(next.at, {next.replica, clocks_[index], orders_.latest(), 32, intervals_[index]},
                     orders_);
      carry_out(next.at);
    }
    return std::chrono::duration<double>(steady_clock::now() - start).count();
  }

 private:
  void carry_out(Time now) {
    for (const policy::Order& order : orders_.list()) {
      if (const auto* release = std::get_if<policy::Release>(&order)) {
        arrivals_.push(
            {now + intervals_[static_cast<std::size_t>(release->replica.value())], release->replica});
      }
    }
    orders_.clear();
  }

  std::unique_ptr<policy::SyncPolicy> policy_;
  policy::Orders orders_;
  std::vector<Duration> intervals_;
  std::vector<Clock> clocks_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

void measure(Table& table) {
  for (const char* text : {"bsp", "asp", "ssp:3", "dssp:3-15", "dssp:3-15:printed", "elastic-bsp:15"}) {
    for (const std::int32_t replicas : {4, 1000, 100'000}) {
      Cluster cluster(*policy::parse_policy(text), replicas);
      cluster.run(replicas);  // warm
      constexpr std::int64_t kDecisions = 1'000'000;
      const double seconds = cluster.run(kDecisions);
      table.add(text, {{"replicas", replicas},
                       {"decisions_per_s", kDecisions / seconds},
                       {"ns_per_decision", 1e9 * seconds / kDecisions}});
    }
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
