// The planner's links within one host, whose processes share its memory.
#pragma once

#include "paceline/decisions/planner/cluster.h"

namespace paceline::config {

// A stage's output is copied out and in; pushing and pulling is a pass over memory, and a round through the
// coordinator.
inline constexpr planner::Link kBetweenProcesses{.latency_ms = 0.05, .bytes_per_ms = 1e6};
inline constexpr planner::Link kToServers{.latency_ms = 0.5, .bytes_per_ms = 4e6};
inline constexpr double kServersBytesPerMs = 8e6;
// For each micro-batch on a stage, whatever its size: two messages to the process that computes, and back.
inline constexpr double kPassMs = 0.6;

}  // namespace paceline::config
