#include "paceline/decisions/control/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace paceline::control {

namespace {

double cosine(const LrSchedule& schedule, std::int64_t committed) {
  const std::int64_t span = std::max<std::int64_t>(1, schedule.total - schedule.warmup);
  const double done =
      std::clamp(static_cast<double>(committed - schedule.warmup) / static_cast<double>(span), 0.0, 1.0);
  return schedule.last + (schedule.base - schedule.last) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

double stepped(const LrSchedule& schedule, std::int64_t committed) {
  double rate = schedule.base;
  for (std::int64_t milestone : schedule.milestones) {
    if (committed >= milestone) rate *= schedule.gamma;
  }
  return rate;
}

double tabled(const LrSchedule& schedule, std::int64_t committed) {
  const std::vector<LrPoint>& table = schedule.table;
  const auto after =
      std::upper_bound(table.begin(), table.end(), committed,
                       [](std::int64_t samples, const LrPoint& point) { return samples < point.samples; });
  if (after == table.begin()) return schedule.base * table.front().factor;
  const LrPoint& before = *(after - 1);
  if (after == table.end()) return schedule.base * before.factor;
  const double way =
      static_cast<double>(committed - before.samples) / static_cast<double>(after->samples - before.samples);
  return schedule.base * (before.factor + (after->factor - before.factor) * way);
}

}  // namespace

double learning_rate(const LrSchedule& schedule, std::int64_t committed) {
  if (committed < schedule.warmup) {
    // The first commit would move nothing at exactly 0: half a percent of the way is where it starts.
    const double share = static_cast<double>(committed) / static_cast<double>(schedule.warmup);
    return schedule.base * std::max(share, 0.005);
  }
  switch (schedule.shape) {
    case LrShape::kConstant:
      return schedule.base;
    case LrShape::kStep:
      return stepped(schedule, committed);
    case LrShape::kCosine:
      return cosine(schedule, committed);
    case LrShape::kTable:
      return tabled(schedule, committed);
  }
  return schedule.base;
}

}  // namespace paceline::control
