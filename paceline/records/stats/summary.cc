#include "paceline/records/stats/summary.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace paceline::report {

namespace {

std::optional<double> a_unit(double count, double units) {
  if (units <= 0) return std::nullopt;
  return count / units;
}

}  // namespace

std::int64_t Summary::replicas_live() const {
  return std::count_if(replicas.begin(), replicas.end(),
                       [](const ReplicaSummary& replica) { return replica.doing != Doing::kGone; });
}

std::string name_of(World world) {
  static constexpr std::array kNames{"simulated", "virtual", "live"};
  return kNames[static_cast<std::size_t>(world)];
}

std::int64_t Summary::replicas_in_all() const {
  if (plan) return std::ssize(plan->plan.replicas);
  std::set<std::string_view> names;
  for (const ReplicaSummary& replica : replicas) names.insert(replica.name);
  return std::ssize(names);
}

std::optional<double> Summary::time_left_s() const {
  return seconds_left(samples, run.total_samples, samples_per_s);
}

std::optional<double> seconds_left(std::int64_t committed, std::int64_t total, double samples_per_s) {
  if (!(samples_per_s > 0) || total <= 0) return std::nullopt;
  return static_cast<double>(std::max<std::int64_t>(0, total - committed)) / samples_per_s;
}

std::optional<double> Summary::commits_per_epoch() const {
  return a_unit(static_cast<double>(commits), epochs);
}

std::optional<double> Summary::gradients_per_epoch() const {
  return a_unit(static_cast<double>(groups.gradients), epochs);
}

std::optional<Deviation> Summary::deviation() const {
  if (commits == 0) return std::nullopt;
  const double of_one = groups.learning_rate_max * groups.fraction_max;
  Deviation deviation{.bound = {}, .measured = of_one * static_cast<double>(staleness_max)};
  if (run.staleness_bound) deviation.bound = of_one * static_cast<double>(*run.staleness_bound);
  return deviation;
}

}  // namespace paceline::report
