// SGD with momentum on F(w) = Σ λ_i·w_i²/2, as the Work of a virtual cluster: the real step numbers, fused
// update and look-ahead on weights whose every move is kept. One thread.
#pragma once

#include <map>
#include <vector>

#include "paceline/parameters/ps/update_rule.h"
#include "paceline/simulation/sim/work.h"

namespace paceline::sim::testing {

class Quadratic final : public Work {
 public:
  // The weights on which a replica was released, and on which it computed its gradient.
  struct Point {
    Version base;
    double reach = 0;  // R·η: how far along the velocity of `base`
    std::vector<float> at;
  };
  struct Step {
    double fraction = 0;
    double rate = 0;  // η
    std::vector<float> weights, velocity, gradient;
    std::vector<Point> members{};
  };

  // All weights begin at 1.
  Quadratic(std::vector<float> curvatures, double momentum, bool look_ahead);

  absl::Status start(const control::Release& release, const PlaceModel&) override;
  absl::StatusOr<Finished> finish(ReplicaId) override { return Finished{}; }
  absl::Status commit(Time at, const control::CommitRecord& record) override;

  // Indexed by version; version 0 is the start.
  const std::vector<Step>& steps() const { return steps_; }

 private:
  const std::vector<float> curvatures_;
  const ps::OptimizerConfig optimizer_;
  const bool look_ahead_;
  std::map<ReplicaId, Point> computing_;
  std::vector<Step> steps_;
  double fractions_ = 0;
};

}  // namespace paceline::sim::testing
