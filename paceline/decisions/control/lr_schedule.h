// Learning-rate schedules on the samples that all replicas have committed, never on a replica's own epochs.
// So a replica that runs ahead does not reach the decay early. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::control {

enum class LrShape { kConstant, kStep, kCosine, kTable };

// A point of a table: after this many samples the rate is `base` times `factor`.
struct LrPoint {
  std::int64_t samples = 0;
  double factor = 1;
};

struct LrSchedule {
  LrShape shape = LrShape::kConstant;
  double base = 0.05;       // the rate of one full bulk update
  std::int64_t warmup = 0;  // samples over which the rate rises linearly from 0 to base
  std::vector<std::int64_t>
      milestones;  // step: samples after which the rate is multiplied by gamma, ascending
  double gamma = 0.1;
  std::int64_t total = 0;  // cosine: samples at which the rate reaches `last`
  double last = 0;
  // table: linear between the points, constant before the first and after the last one. Of points at the same
  // sample the last one holds from there on: a jump. Ascending; at least one.
  std::vector<LrPoint> table = {};
};

// The rate of a commit before which `committed` samples were trained on. O(log n) for a table of n points.
double learning_rate(const LrSchedule& schedule, std::int64_t committed);

}  // namespace paceline::control
