// How a job's devices make up replicas: each one alone, or in pipelines, as the job file or the planner says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// The most devices of a plan: a search looks at changes of all pairs.
inline constexpr std::size_t kMostPlannedDevices = 128;

// The most samples of a device's batch, and of a micro-batch.
inline constexpr std::int64_t kMostSamples = 1 << 20;

enum class Parallel {
  kData,        // each device is a replica
  kStatic,      // [[pipeline]] names the devices of each replica
  kUnevenData,  // each device is a replica, and gets samples by its measured speed
  kPipeline,    // all devices are one replica, cut by the planner before the run
  kJoint,       // the planner decides, before the run and during it
  kFrozen,      // the planner decides, before the run only
  kGpipe,       // the plan of another system (planner/baselines.h), before the run only
  kGpipeWork,
  kPipedream,
  kHetpipe,
};

// The mode's name in a job file.
std::string to_string(Parallel mode);

struct ParallelConfig {
  Parallel mode = Parallel::kData;
  // The plan, which every mode has; a device is its place in the job's list. Every device is in one replica,
  // but the planner may leave some out.
  planner::Plan plan;
  std::optional<std::int64_t> micro_batch;  // only if the file has the key
  // The planner has not made the plan yet: until then each device is alone in it.
  bool to_be_planned = false;
  // The cost of each unit of the model, in any measure; empty: all alike.
  std::vector<double> work;
  // The model's units as they were measured when the plan was made; empty if they were not measured.
  planner::ModelProfile model;

  bool by_planner() const { return mode >= Parallel::kPipeline; }
  // Whether samples follow measured speeds.
  bool uneven_data() const { return mode == Parallel::kUnevenData || mode == Parallel::kJoint; }
  // Whether a device's paced time is that of the samples that it gets. In other modes it is that of its
  // batch, however small the last batch of an epoch is.
  bool paced_by_samples() const { return mode != Parallel::kData; }
  // Whether devices may be stages.
  bool of_stages() const { return mode == Parallel::kStatic || by_planner(); }
  // Whether a replica has several devices.
  bool pipelined() const;
};

// The properties of a device that matter for a plan.
struct PlanDevice {
  std::string name;
  std::int64_t batch;
};

// Reads the keys parallel, micro_batch and work, and the sections [[pipeline]] and [[layer]].
ParallelConfig read_parallel(Section& top, const std::vector<PlanDevice>& devices, Complaints& complaints);

// The forward pass's part of the work on a micro-batch: the backward pass has two products for each of its
// products.
inline constexpr double kForwardPart = 1.0 / 3;

// Errors: InvalidArgument when a model of `units` units cannot be cut at these places, or when `work` or
// [[layer]] lists other units.
absl::Status check_units(const ParallelConfig& parallel, const std::string& model, std::int64_t units);

// The share of units [begin, end) in the work of all, from 0 to 1. `work` may be empty. Requires: a range of
// `units`.
double share_of_work(const std::vector<double>& work, std::int64_t begin, std::int64_t end,
                     std::int64_t units);

}  // namespace paceline::config
