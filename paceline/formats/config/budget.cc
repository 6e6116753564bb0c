#include "paceline/formats/config/budget.h"

namespace paceline::config {

namespace {
constexpr double kSecondsPerHour = 3600;
}  // namespace

planner::Budget read_budget(Section& section) {
  planner::Budget budget;
  budget.kind =
      static_cast<planner::CostKind>(section.choice("kind", 0, {"money", "energy_j", "cross_site_mb"}));
  budget.most = section.number("most", 1, 1e-12, 1e15);
  if (!section.has("most")) section.complain("most", "write how much it may be");
  const std::size_t per = section.choice("per", 0, {"batch", "second", "hour"});
  budget.per_second = per != 0;
  if (per == 2) budget.most /= kSecondsPerHour;
  if (budget.kind == planner::CostKind::kCrossSite) budget.most *= 1e6;
  return budget;
}

double read_price(Section& section) { return section.number("price_per_hour", 0, 0, 1e6); }

double read_power(Section& section) { return section.number("power_w", 0, 0, 1e6); }

}  // namespace paceline::config
