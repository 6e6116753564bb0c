// A plan: which devices form which replica, where its pipeline is cut, and how many samples it gets of each
// batch. Plain values; device and layer numbers are indices into the cluster and the profile it was made for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "paceline/base/stage_turns.h"

namespace paceline::planner {

// One replica: a pipeline of stages, each on one device or on several. Devices that begin at the same layer
// share a stage (stage replication, PipeDream: Narayanan et al. 2019, §3.2): they compute its micro-batches
// in turn.
struct PlannedReplica {
  // in the order of stages, and within a stage in the order of turns; at least one
  std::vector<std::int32_t> devices;
  // devices.size() - 1 numbers: the layer at which each device but the first begins; not descending
  std::vector<std::int32_t> cuts;
  std::int64_t samples = 0;  // b_g, samples of each batch; 0: the replica holds the weights and waits

  // Layers [begin(device), end(device)), by its place in `devices`.
  std::int32_t begin(std::size_t device) const { return device == 0 ? 0 : cuts[device - 1]; }
  std::int32_t end(std::size_t device, std::int32_t layers) const {
    const auto behind =
        std::upper_bound(cuts.begin() + static_cast<std::ptrdiff_t>(device), cuts.end(), begin(device));
    return behind == cuts.end() ? layers : *behind;
  }
  friend bool operator==(const PlannedReplica&, const PlannedReplica&) = default;
};

// Whether a device shares the stage of the one before it. Requires: not the first.
inline bool shares_with_the_one_before(const PlannedReplica& replica, std::size_t device) {
  return replica.begin(device) == replica.begin(device - 1);
}

// The same devices in the same stages, wherever they are cut.
inline bool same_pipeline(const PlannedReplica& a, const PlannedReplica& b) {
  if (a.devices != b.devices) return false;
  for (std::size_t d = 1; d < a.devices.size(); ++d) {
    if (shares_with_the_one_before(a, d) != shares_with_the_one_before(b, d)) return false;
  }
  return true;
}

// A stage: its layers, and which of the replica's devices share it.
struct PlannedStage {
  std::int32_t begin = 0, end = 0;   // layers [begin, end)
  std::size_t first = 0, width = 1;  // devices [first, first + width)
  std::int64_t kept = 1;  // micro-batches on each device between their two passes, if there are enough
};

// The stages in their order. `layers`: the model's, at which the last stage ends. Requires: a device, and one
// cut fewer than devices.
inline std::vector<PlannedStage> stages_of(const PlannedReplica& replica,
                                           std::int32_t layers = std::numeric_limits<std::int32_t>::max()) {
  std::vector<PlannedStage> stages;
  std::vector<std::size_t> widths;
  for (std::size_t d = 0; d < replica.devices.size(); ++d) {
    if (d > 0 && shares_with_the_one_before(replica, d)) {
      ++stages.back().width;
      ++widths.back();
      continue;
    }
    const std::int32_t begin = replica.begin(d);
    if (!stages.empty()) stages.back().end = begin;
    stages.push_back({begin, layers, d, 1, 1});
    widths.push_back(1);
  }
  const std::vector<std::int64_t> kept = kept_at_once(widths);
  for (std::size_t s = 0; s < stages.size(); ++s) stages[s].kept = kept[s];
  return stages;
}

struct Plan {
  std::vector<PlannedReplica> replicas;
  std::int64_t micro_batch = 1;  // u, samples; the last micro-batch of a replica may be smaller

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Compares replicas, cuts and u, but not the samples.
inline bool same_stages(const Plan& a, const Plan& b) {
  return a.micro_batch == b.micro_batch &&
         std::equal(a.replicas.begin(), a.replicas.end(), b.replicas.begin(), b.replicas.end(),
                    [](const auto& x, const auto& y) { return x.devices == y.devices && x.cuts == y.cuts; });
}

}  // namespace paceline::planner
