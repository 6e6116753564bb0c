// How a job's devices make up replicas: each one alone, or in pipelines as the job file says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/config/section.h"
#include "paceline/planner/plan.h"

namespace paceline::config {

enum class Parallel {
  kData,        // each device is a replica
  kStatic,      // [[pipeline]] says which devices are
  kUnevenData,  // each device is a replica, and gets samples by its measured speed
};

struct ParallelConfig {
  Parallel mode = Parallel::kData;
  // In every mode; devices are places in the job's list of them. Every device is in one replica.
  planner::Plan plan;
  // Of each unit of the model, what it costs to compute, in any measure; empty: all alike.
  std::vector<double> work;

  // Of the job's devices, as they are listed.
  bool pipelined() const;
};

// A device as far as a plan is made of it.
struct PlanDevice {
  std::string name;
  std::int64_t batch;
};

// The keys parallel, micro_batch and work, and the sections [[pipeline]].
ParallelConfig read_parallel(Section& top, const std::vector<PlanDevice>& devices, Complaints& complaints);

// The forward pass's part of the work on a micro-batch: the backward pass has two products where it has one.
inline constexpr double kForwardPart = 1.0 / 3;

// Errors: InvalidArgument when a model of so many units cannot be cut so, or `work` lists others.
absl::Status check_units(const ParallelConfig& parallel, const std::string& model, std::int64_t units);

// Of units [begin, end) in the work of all, from 0 to 1. `work` may be empty. Requires: a range of `units`.
double share_of_work(const std::vector<double>& work, std::int64_t begin, std::int64_t end,
                     std::int64_t units);

}  // namespace paceline::config
