// The planner's knowledge of a model: one entry for each unit after which a pipeline may be cut. Plain
// values; measured or computed elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paceline::planner {

// Measured times of micro-batches, forward and backward, on a device of speed 1: size and milliseconds. The sizes
// ascend. Between two sizes the time is on the line between theirs, and below the first on the line of the first two.
using SizeTimes = std::vector<std::pair<std::int64_t, double>>;

// Beyond the largest size each sample adds `each_ms`. Requires: at least one size.
inline double time_of(const SizeTimes& times, std::int64_t u, double each_ms) {
  const auto& [largest, longest] = times.back();
  if (u >= largest) return longest + static_cast<double>(u - largest) * each_ms;
  if (times.size() == 1) return longest * static_cast<double>(u) / static_cast<double>(largest);
  std::size_t next = 1;
  while (times[next].first < u) ++next;
  const auto& [from, from_ms] = times[next - 1];
  const auto& [to, to_ms] = times[next];
  return std::max(
      0.0, from_ms + (to_ms - from_ms) * static_cast<double>(u - from) / static_cast<double>(to - from));
}

struct LayerProfile {
  std::string name;
  double work_ms = 0;                 // forward and backward of one sample on a device of speed 1 (w_l)
  double forward_share = 1.0 / 3;     // share of work_ms, and of fixed_ms
  std::int64_t output_bytes = 0;      // one sample's activation, sent on if a cut follows (y_l)
  std::int64_t activation_bytes = 0;  // one sample's memory, kept from forward to backward
  std::int64_t parameter_bytes = 0;   // weights
  double fixed_ms = 0;                // added to each micro-batch on a device of speed 1, whatever its size
  std::int64_t frozen_bytes = 0;      // the part of them that nobody trains: it has no gradient
  std::int64_t state_bytes = 0;       // the optimizer's state for them, which the servers hold
  // Weights that an earlier layer has too. A stage with both layers has them once.
  std::int64_t tied_bytes = 0;
  std::int32_t tied_to = 0;  // the number of that layer
  // Gradients of tied weights, which come back with each micro-batch's gradient if a cut follows.
  std::int64_t returned_bytes = 0;
  // Memory that comes and goes while one micro-batch of u samples is computed: fixed + u · the one for a sample.
  std::int64_t working_bytes = 0, working_fixed_bytes = 0;
  std::int64_t activation_fixed_bytes = 0;  // kept for each micro-batch beside the samples' activation_bytes
  SizeTimes measured{};  // if there are any, they count in place of fixed_ms + u · work_ms

  // A micro-batch of u samples on a device of speed 1.
  double ms(std::int64_t u) const {
    return measured.empty() ? fixed_ms + static_cast<double>(u) * work_ms : time_of(measured, u, work_ms);
  }
};

struct ModelProfile {
  std::vector<LayerProfile> layers;
  // Time that a micro-batch takes beside its layers, on a device with the whole model and on a stage of a cut one: its
  // samples are loaded, a worker and its program take turns, and a stage stands in for what it does not compute.
  // Empty: not measured.
  SizeTimes step_overhead, stage_overhead;
  double update_ms = 0;  // one update of all trained weights by the servers of one host; 0: not known

  const SizeTimes& overhead(bool is_cut) const { return is_cut ? stage_overhead : step_overhead; }
};

}  // namespace paceline::planner
