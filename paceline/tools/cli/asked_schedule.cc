#include "paceline/tools/cli/asked_schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace paceline::cli {

namespace {

// This part of the highest factor is no difference: the package keeps at most 2,000 points, which moves a smooth schedule
// less.
constexpr double kSame = 1e-5;

struct Point {
  double epoch = 0;
  double factor = 0;
};
using Points = std::vector<Point>;

// No points if there is no such table.
Points points_of(const toml::table& job) {
  const auto node = job.at_path("schedule.table");
  const toml::array* const table = node.as_array();
  Points points;
  if (table == nullptr) return points;
  for (const toml::node& one : *table) {
    const toml::array* const pair = one.as_array();
    const bool whole = pair != nullptr && pair->size() == 2;
    const auto epoch = whole ? (*pair)[0].value<double>() : std::nullopt;
    const auto factor = whole ? (*pair)[1].value<double>() : std::nullopt;
    if (!epoch || !factor) return {};
    points.push_back({*epoch, *factor});
  }
  return points;
}

double between(const Points& points, Points::const_iterator after, double epoch) {
  if (after == points.begin()) return after->factor;
  const Point& before = *(after - 1);
  if (after == points.end()) return before.factor;
  return before.factor +
         (after->factor - before.factor) * (epoch - before.epoch) / (after->epoch - before.epoch);
}

double factor_before(const Points& points, double epoch) {
  const auto after = std::lower_bound(points.begin(), points.end(), epoch,
                                      [](const Point& point, double at) { return point.epoch < at; });
  return between(points, after, epoch);
}

double factor_from(const Points& points, double epoch) {
  const auto after = std::upper_bound(points.begin(), points.end(), epoch,
                                      [](double at, const Point& point) { return at < point.epoch; });
  return between(points, after, epoch);
}

}  // namespace

bool have_schedules(const toml::table& said, const toml::table& wanted) {
  return !points_of(said).empty() && !points_of(wanted).empty();
}

std::optional<ScheduleDifference> schedule_difference(const toml::table& said, const toml::table& wanted) {
  const Points one = points_of(said), other = points_of(wanted);
  if (one.empty() || other.empty()) return std::nullopt;
  std::vector<double> epochs;
  double highest = 0;
  for (const Points* const points : {&one, &other}) {
    for (const Point& point : *points) {
      epochs.push_back(point.epoch);
      highest = std::max(highest, std::abs(point.factor));
    }
  }
  std::sort(epochs.begin(), epochs.end());
  for (const double epoch : epochs) {
    for (const auto at : {factor_before, factor_from}) {
      const ScheduleDifference found{epoch, at(one, epoch), at(other, epoch)};
      if (std::abs(found.said - found.wanted) > kSame * highest) return found;
    }
  }
  return std::nullopt;
}

}  // namespace paceline::cli
