// The whole input of a plan. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/decisions/planner/cluster.h"
#include "paceline/decisions/planner/costs.h"
#include "paceline/decisions/planner/profile.h"

namespace paceline::planner {

struct Problem {
  ModelProfile model;  // at least one layer
  Cluster cluster;
  std::int64_t batch = 1;                   // B
  std::vector<std::int64_t> micro_batches;  // the u to choose from, ascending, each in [1, B]; not empty
  std::vector<Budget> budgets;

  std::int32_t layers() const { return static_cast<std::int32_t>(model.layers.size()); }
  // The time of a micro-batch of u samples on this device, beside its layers. `is_cut`: the device does not have all of
  // them.
  double overhead_ms(const Device& device, std::int64_t u, bool is_cut) const {
    return said_overhead_ms(device, is_cut) + measured_overhead_ms(device, u, is_cut);
  }
  // Its two parts: one that is the same at any speed, and one that was measured.
  double said_overhead_ms(const Device& device, bool is_cut) const {
    return device.overhead_ms.value_or(model.overhead(is_cut).empty() ? cluster.usual_overhead_ms : 0);
  }
  double measured_overhead_ms(const Device& device, std::int64_t u, bool is_cut) const {
    const SizeTimes& measured = model.overhead(is_cut);
    return measured.empty() ? 0 : time_of(measured, u, 0) / device.speed;
  }
};

// 1, 2, 4, … up to the batch.
inline std::vector<std::int64_t> powers_of_two_up_to(std::int64_t batch) {
  std::vector<std::int64_t> powers;
  for (std::int64_t u = 1; u <= batch && u > 0; u *= 2) powers.push_back(u);
  return powers;
}

}  // namespace paceline::planner
