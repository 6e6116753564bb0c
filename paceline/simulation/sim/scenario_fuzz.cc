// Any bytes as a scenario file: one line that says what is wrong, or a cluster that can be simulated for a
// while without a broken promise.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/virtual_cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline;
  constexpr std::size_t kMostReplicas = 100;
  constexpr int kSteps = 200;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto scenario = sim::parse_scenario(text, "FILE");
  if (!scenario.ok()) {
    testing::check_one_line(scenario.status(), "FILE");
    return 0;
  }
  if (scenario->cluster.places.size() > kMostReplicas) return 0;
  for (const char* policy : {"bsp", "ssp:1", "elastic-bsp:3"}) {
    sim::VirtualCluster cluster(scenario->cluster, sim::controller_config(*scenario),
                                policy::make_policy(*policy::parse_policy(policy)),
                                {.listeners = {}, .stop_after_iterations = scenario->iterations});
    for (int step = 0; step < kSteps && !cluster.over() && cluster.step().ok(); ++step) {
    }
    PACELINE_CHECK(!cluster.broken(), "{}", *cluster.broken());
  }
  return 0;
}
