// How many decisions a second a host of a Controller can make, with few and with very many replicas: the
// Controller alone, watched by the Observer, and with the statistics of the run as well. One decision is one
// Ready fact and the orders it gives. Speeds differ (1× to 4×), so that releases are held and granted.
#include <ctime>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/witnesses.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/stats/run_stats.h"

namespace paceline::bench {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kDecisions = 1'000'000;
constexpr double kLongest_s = 5;

// Processor time of this process: other work of the machine does not count.
double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

enum class Watched { kNot, kByObserver, kByAll };

struct Arrival {
  Time at;
  ReplicaId replica;
  friend bool operator>(const Arrival& a, const Arrival& b) {
    return std::pair(a.at, a.replica) > std::pair(b.at, b.replica);
  }
};

control::ControllerConfig endless_job(std::int32_t replicas) {
  control::ControllerConfig config;
  config.dataset_size = 1'000'000;
  config.total_samples = std::int64_t{1} << 50;
  config.start_replicas = replicas;
  return config;
}

// A cluster with free communication: the smallest world a Controller can live in.
class Cluster {
 public:
  Cluster(const std::string& spec, std::int32_t replicas, Watched watched)
      : config_(endless_job(replicas)),
        controller_(config_, policy::make_policy(*policy::parse_policy(spec))),
        stats_({.title = "", .policy = spec, .world = report::World::kSimulated, .target = {}}) {
    if (watched != Watched::kNot) {
      std::vector<control::RunListener*> listeners;
      if (watched == Watched::kByAll) listeners.push_back(&stats_);
      witnesses_.emplace(control::Observer(controller_.bounds(), config_.dataset_size, config_.total_samples),
                         listeners);
    }
    Rng rng(1);
    for (std::int32_t i = 0; i < replicas; ++i) {
      replicas_.push_back({.interval = from_seconds(0.1 * (1 + 3 * rng.uniform())), .clock = {}, .base = {}});
      give({Time{}, control::ReplicaJoined{ReplicaId(i), fmt::format("w{}", i), kBatch}});
    }
  }

  // Decisions in a second of one core, the queue of arrivals included, from `decisions` decisions, or fewer
  // if the time is up.
  double run(std::int64_t decisions) {
    const double start = cpu_s();
    std::int64_t made = 0;
    while (made < decisions) {
      step();
      if (++made % 64 == 0 && cpu_s() - start > kLongest_s) break;
    }
    return static_cast<double>(made) / (cpu_s() - start);
  }

 private:
  struct Replica {
    Duration interval;
    Clock clock;
    Version base;
  };

  void step() {
    const Arrival next = arrivals_.top();
    arrivals_.pop();
    const Replica& replica = replicas_[static_cast<std::size_t>(next.replica.value())];
    give({next.at, control::ReplicaReady{next.replica, replica.clock, replica.base, replica.interval, 2.0}});
  }

  void give(const control::Fact& fact) {
    orders_.clear();
    const absl::Status taken = controller_.handle(fact, orders_);
    PACELINE_CHECK(taken.ok(), "{}", taken.ToString());
    if (witnesses_) {
      const auto complaint = witnesses_->record(fact, orders_);
      PACELINE_CHECK(!complaint, "{}", *complaint);
    }
    for (const control::Order& order : orders_) {
      if (const auto* release = std::get_if<control::Release>(&order)) start(fact.at, *release);
    }
  }

  void start(Time now, const control::Release& release) {
    Replica& replica = replicas_[static_cast<std::size_t>(release.replica.value())];
    replica.clock = release.clock;
    replica.base = release.version;
    arrivals_.push({now + replica.interval, release.replica});
  }

  const control::ControllerConfig config_;
  control::Controller controller_;
  report::RunStats stats_;
  std::optional<control::Witnesses> witnesses_;
  std::vector<control::Order> orders_;
  std::vector<Replica> replicas_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

double decisions_per_s(const std::string& spec, std::int32_t replicas, Watched watched) {
  Cluster cluster(spec, replicas, watched);
  cluster.run(replicas);  // warm
  return cluster.run(kDecisions);
}

void measure(Table& table) {
  for (const char* spec : {"bsp", "asp", "ssp:3", "dssp:3-15"}) {
    for (const std::int32_t replicas : {10, 1000, 10'000, 100'000}) {
      const double all = decisions_per_s(spec, replicas, Watched::kByAll);
      table.add(spec, {{"replicas", replicas},
                       {"controller_per_s", decisions_per_s(spec, replicas, Watched::kNot)},
                       {"observed_per_s", decisions_per_s(spec, replicas, Watched::kByObserver)},
                       {"with_statistics_per_s", all},
                       {"ns_with_statistics", 1e9 / all}});
    }
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
