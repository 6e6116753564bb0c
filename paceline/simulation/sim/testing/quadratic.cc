#include "paceline/simulation/sim/testing/quadratic.h"

#include <utility>

#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline::sim::testing {

Quadratic::Quadratic(std::vector<float> curvatures, double momentum, bool look_ahead)
    : curvatures_(std::move(curvatures)), optimizer_{.momentum = momentum}, look_ahead_(look_ahead) {
  const std::size_t n = curvatures_.size();
  steps_.push_back({0, 0, std::vector<float>(n, 1), std::vector<float>(n, 0), std::vector<float>(n, 0)});
}

absl::Status Quadratic::start(const control::Release& release, const PlaceModel&) {
  const Step& newest = steps_.back();
  Point& mine = computing_[release.replica];
  mine = {Version(static_cast<std::int64_t>(steps_.size()) - 1), 0, newest.weights};
  if (!look_ahead_) return absl::OkStatus();
  mine.reach = ps::look_ahead_reach(optimizer_, release.learning_rate, release.staleness, release.fraction);
  ps::look_ahead(newest.weights, newest.velocity, static_cast<float>(mine.reach), mine.at);
  return absl::OkStatus();
}

absl::Status Quadratic::commit(Time, const control::CommitRecord& record) {
  const std::size_t n = curvatures_.size();
  const Step& before = steps_.back();
  Step next{record.fraction, record.learning_rate,     std::vector<float>(n),
            before.velocity, std::vector<float>(n, 0), {}};
  std::vector<std::vector<float>> gradients;
  std::vector<ps::Weighted> members;
  for (const control::CommitMember& member : record.members) {
    const Point& point = computing_.at(member.replica);
    next.members.push_back(point);
    std::vector<float>& gradient = gradients.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) {
      gradient[i] = curvatures_[i] * point.at[i];
      next.gradient[i] += static_cast<float>(member.weight) * gradient[i];
    }
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    members.push_back({gradients[i].data(), static_cast<float>(record.members[i].weight)});
  fractions_ += record.fraction;
  ps::fused_update(optimizer_.kind,
                   ps::step_numbers(optimizer_, record.learning_rate, record.fraction, fractions_), members,
                   {before.weights.data(), next.weights.data(), next.velocity.data(), nullptr}, 0,
                   static_cast<std::int64_t>(n));
  steps_.push_back(std::move(next));
  return absl::OkStatus();
}

}  // namespace paceline::sim::testing
