// Measurements of a program's model on its machine: the key `profile` of its message `model` (docs/program.md).
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/profile.h"

namespace paceline::program {

struct MeasuredUnit {
  std::string name;
  std::int64_t parameters = 0, trained = 0;  // numbers
  std::int64_t parameter_bytes = 0, frozen_bytes = 0;
  std::int64_t tied_bytes = 0;
  std::int32_t tied_to = 0;                     // the unit that has the tied weights too
  std::vector<double> forward_ms, backward_ms;  // for each size of a micro-batch
  std::int64_t sent_bytes = 0, kept_bytes = 0;  // for one sample
  std::int64_t kept_fixed_bytes = 0;            // for a micro-batch, whatever its size
  std::int64_t returned_bytes = 0;              // gradients of tied weights, in each micro-batch
  // Memory that comes and goes during a micro-batch: for each sample, and whatever its size.
  std::int64_t working_bytes = 0, working_fixed_bytes = 0;
  std::optional<std::int64_t> peak_bytes;  // the largest micro-batch's, beside the weights
};

struct MeasuredModel {
  std::string name;  // the class of the model
  std::int64_t threads = 1;
  std::vector<std::int64_t> micro_batches;  // ascending; at least one
  std::vector<MeasuredUnit> units;          // at least one
  // The whole model in one piece, with the largest micro-batch.
  struct Whole {
    double forward_ms = 0, backward_ms = 0;
    std::optional<std::int64_t> peak_bytes;
  };
  std::optional<Whole> whole;
};

// The measurements in a model's message. Errors: DataLoss, in words that fit after "the program ".
absl::StatusOr<MeasuredModel> parse_measured(const std::string& message);

// A time over the size of a micro-batch: fixed + each · size. Neither is below 0.
struct MeasuredTime {
  double fixed_ms = 0, each_ms = 0;
};
// The least squares. A smaller micro-batch takes no longer than a larger one: if it did, other work has disturbed it.
// Requires: as many times as sizes, at least one.
MeasuredTime fit(const std::vector<std::int64_t>& sizes, const std::vector<double>& ms);

// `state_streams`: the numbers of optimizer state for each trained weight.
planner::ModelProfile profile_of(const MeasuredModel& model, std::int64_t state_streams);

}  // namespace paceline::program
