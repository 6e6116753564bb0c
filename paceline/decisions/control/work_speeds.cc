#include "paceline/decisions/control/work_speeds.h"

#include <cmath>

namespace paceline::control {

namespace {

void add(std::optional<planner::ClippedMean>& mean, double value) {
  if (!mean) mean.emplace(value);
  mean->add(value);
}

}  // namespace

void WorkSpeeds::finished(ReplicaId replica, std::int64_t samples, std::optional<double> weight, double ms) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  Replica& mine = replicas_[index];
  const auto count = static_cast<double>(samples);
  if (weight && *weight > 0) {
    compare(mine, count, *weight, ms);
    samples_ += count;
    weight_ += *weight;
    add(mine.ms_per_weight, ms / *weight);
  }
  add(mine.ms_per_sample, ms / count);
}

void WorkSpeeds::compare(const Replica& replica, double samples, double weight, double ms) {
  if (!replica.ms_per_sample || !replica.ms_per_weight) return;
  const auto add_error = [&](double& error, double predicted) {
    error += kShare * (std::abs(std::log(ms / predicted)) - error);
  };
  add_error(sample_error_, replica.ms_per_sample->value() * samples);
  add_error(weight_error_, replica.ms_per_weight->value() * weight);
}

void WorkSpeeds::forget(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index < replicas_.size()) replicas_[index] = {};
}

std::optional<double> WorkSpeeds::ms_per_sample(ReplicaId replica) const {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size() || !replicas_[index].ms_per_sample) return std::nullopt;
  const Replica& mine = replicas_[index];
  if (mine.ms_per_weight && by_weight()) return mine.ms_per_weight->value() * weight_ / samples_;
  return mine.ms_per_sample->value();
}

double WorkSpeeds::usual_ms(std::int64_t samples, std::optional<double> weight, double ms) const {
  if (!weight || *weight <= 0 || !by_weight()) return ms;
  return ms * (weight_ / samples_) / (*weight / static_cast<double>(samples));
}

}  // namespace paceline::control
