// A plan: which devices form which replica, where its pipeline is cut, and how many samples it gets of each
// batch. Plain values; device and layer numbers are indices into the cluster and the profile it was made for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline::planner {

// One replica: a pipeline of stages. Stage s runs layers [begin(s), end(s)) on devices[s].
struct PlannedReplica {
  std::vector<std::int32_t> devices;  // in the order of the stages; at least one
  std::vector<std::int32_t> cuts;  // devices.size() - 1 first layers of the stages after the first; ascending
  std::int64_t samples = 0;        // b_g, of each batch; 0: it holds the weights and waits

  std::int32_t begin(std::size_t stage) const { return stage == 0 ? 0 : cuts[stage - 1]; }
  std::int32_t end(std::size_t stage, std::int32_t layers) const {
    return stage < cuts.size() ? cuts[stage] : layers;
  }
  friend bool operator==(const PlannedReplica&, const PlannedReplica&) = default;
};

struct Plan {
  std::vector<PlannedReplica> replicas;
  std::int64_t micro_batch = 1;  // u, samples; the last micro-batch of a replica may be smaller

  friend bool operator==(const Plan&, const Plan&) = default;
};

// The same replicas, cuts and u, whatever their data.
inline bool same_stages(const Plan& a, const Plan& b) {
  return a.micro_batch == b.micro_batch &&
         std::equal(a.replicas.begin(), a.replicas.end(), b.replicas.begin(), b.replicas.end(),
                    [](const auto& x, const auto& y) { return x.devices == y.devices && x.cuts == y.cuts; });
}

}  // namespace paceline::planner
