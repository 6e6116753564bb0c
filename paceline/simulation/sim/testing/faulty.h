// Makes hard weather of a scenario: joins, leaves, crashes and slowdowns drawn from a seed. After a while the
// faults stop and at least one replica is there, so that the run can end.
#pragma once

#include <cstdint>

#include "paceline/simulation/sim/scenario.h"

namespace paceline::sim::testing {

// The run ends when `iterations` batches of samples are committed, each sample once.
Scenario faulty(Scenario scenario, std::uint64_t seed, std::int64_t iterations);

}  // namespace paceline::sim::testing
