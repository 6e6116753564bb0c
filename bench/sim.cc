// The cost of a simulated iteration, with few and with very many replicas: a million finished iterations of
// every policy (or ten for each replica, if that is more), everything included: events, Controller, Observer,
// statistics and the trace hash. Speeds 1× to 4×, 10 % jitter, free communication. Two policies also with the
// samples of 8 iterations reserved ahead. The policies that wait least and most also on two speeds, 100 ms for
// seven replicas in ten and 230 ms for the others, with 10 and 20 % jitter, and there with uneven data, too.
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/simulation/sim/simulation.h"

namespace paceline::bench {
namespace {

sim::Scenario mixed_speeds(std::int64_t replicas) {
  sim::Scenario scenario;
  for (std::int64_t i = 0; i < replicas; ++i) {
    sim::PlaceModel place;
    place.name = fmt::format("w{}", i);
    place.compute_ms = 250.0 * static_cast<double>(1 + i % 4);
    place.unevenness.jitter = 0.1;
    scenario.cluster.places.push_back(place);
  }
  scenario.iterations = std::max<std::int64_t>(1'000'000, 10 * replicas);
  return scenario;
}

sim::Scenario two_speeds(std::int64_t replicas) {
  sim::Scenario scenario = mixed_speeds(replicas);
  for (std::int64_t i = 0; i < replicas; ++i) {
    sim::PlaceModel& place = scenario.cluster.places[static_cast<std::size_t>(i)];
    const bool slow = i % 10 < 3;
    place.compute_ms = slow ? 230 : 100;
    place.unevenness.jitter = slow ? 0.2 : 0.1;
  }
  return scenario;
}

void measure_one(Table& table, const sim::Scenario& scenario, const char* policy) {
  // Processor time of this process: other work of the machine does not count.
  const std::clock_t before = std::clock();
  const auto simulated = sim::simulate(scenario, *policy::parse_policy(policy));
  const double cpu_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const auto iterations = static_cast<double>(simulated->summary.iterations);
  table.add(policy, {{"replicas", static_cast<double>(scenario.cluster.places.size())},
                     {"ahead", static_cast<double>(scenario.ahead)},
                     {"two speeds", scenario.cluster.places.front().compute_ms == 230 ? 1.0 : 0.0},
                     {"uneven data", scenario.cluster.uneven_data ? 1.0 : 0.0},
                     {"iterations", iterations},
                     {"s a million", cpu_s / iterations * 1e6},
                     {"iterations a virtual s", iterations / simulated->summary.elapsed_s}});
}

void measure(Table& table) {
  for (const std::int64_t replicas : {10, 100, 1'000, 10'000, 100'000}) {
    sim::Scenario scenario = mixed_speeds(replicas);
    for (const char* policy :
         {"bsp", "asp", "ssp:3", "dssp:3-15", "dssp:3-15:printed", "elastic-bsp:15", "cgp", "cgp:patience=0"})
      measure_one(table, scenario, policy);
    scenario.ahead = 8;
    for (const char* policy : {"bsp", "asp"}) measure_one(table, scenario, policy);
    sim::Scenario two = two_speeds(replicas);
    for (const bool uneven : {false, true}) {
      two.cluster.uneven_data = uneven;
      for (const char* policy : {"bsp", "asp", "cgp", "cgp:patience=0"}) measure_one(table, two, policy);
    }
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
