#include "paceline/simulation/sim/testing/faulty.h"

#include <algorithm>

#include "paceline/base/rng.h"

namespace paceline::sim::testing {

namespace {

// About how long the iterations take all replicas together, and a little more.
double duration_s(const ClusterModel& cluster, std::int64_t iterations) {
  double per_s = 0;
  for (const PlaceModel& place : cluster.places) per_s += 1000 / place.compute_ms;
  return 0.8 * static_cast<double>(iterations) / per_s;
}

}  // namespace

Scenario faulty(Scenario scenario, std::uint64_t seed, std::int64_t iterations) {
  Rng rng(mix_seed({seed, 0xbad}));
  ClusterModel& cluster = scenario.cluster;
  const double length_s = duration_s(cluster, iterations);
  const auto some_time = [&] { return Time{} + from_seconds(length_s * rng.uniform()); };
  cluster.seed = seed;
  scenario.samples = iterations * cluster.places.front().batch + static_cast<std::int64_t>(rng.below(7));
  scenario.iterations = 0;
  // 0 to 8; none in half of the seeds
  scenario.ahead = seed % 2 == 0 ? 0 : static_cast<std::int64_t>(seed % 9);
  cluster.faults_end = Time{} + from_seconds(length_s);
  cluster.detection = from_seconds(length_s * 0.1 * rng.uniform());
  for (PlaceModel& place : cluster.places) {
    if (rng.below(4) == 0) place.mtbf_s = length_s * (0.1 + rng.uniform());
    place.mttr_s = length_s * 0.3 * rng.uniform();
    place.batch = 1 + static_cast<std::int64_t>(rng.below(64));
  }
  for (std::uint64_t i = rng.below(8); i > 0; --i) {
    const auto place = static_cast<std::int64_t>(rng.below(cluster.places.size()));
    cluster.changes.push_back({some_time(), place, static_cast<Happening>(rng.below(3))});
    const double at_s = length_s * rng.uniform();
    cluster.slowdowns.push_back({.device = static_cast<std::int64_t>(rng.below(cluster.places.size())),
                                 .at_s = at_s,
                                 .until_s = at_s + length_s * rng.uniform(),
                                 .factor = 1 + 9 * rng.uniform()});
  }
  std::erase_if(cluster.changes, [&](const Change& change) { return change.at > cluster.faults_end; });
  cluster.changes.push_back({cluster.faults_end, 0, Happening::kJoin});
  std::stable_sort(cluster.changes.begin(), cluster.changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  return scenario;
}

}  // namespace paceline::sim::testing
