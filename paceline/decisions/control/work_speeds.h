// How fast replicas work [ours]. The time of an iteration is taken to be proportional to its samples. If the program
// gives each batch a weight, such as the number of its tokens, and weights have predicted the times better, the time is
// taken to be proportional to the weight. Samples of unequal lengths then do not look like changes of speed. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/decisions/planner/estimates.h"

namespace paceline::control {

class WorkSpeeds {
 public:
  // An iteration is over. `ms`: positive. `weight`: nothing if the program gives none.
  void finished(ReplicaId replica, std::int64_t samples, std::optional<double> weight, double ms);
  void forget(ReplicaId replica);
  // The milliseconds that a sample of usual weight takes; nothing if the replica has not finished anything.
  std::optional<double> ms_per_sample(ReplicaId replica) const;
  // How long work would have taken that took `ms`, if its samples had the usual weight; `ms` itself as long as samples
  // predict the times well.
  double usual_ms(std::int64_t samples, std::optional<double> weight, double ms) const;
  bool by_weight() const { return weight_error_ < kClearly * sample_error_; }

 private:
  static constexpr double kShare = 1.0 / 16;
  // Weights are used only if they clearly predict better: by a tenth.
  static constexpr double kClearly = 0.9;
  struct Replica {
    std::optional<planner::ClippedMean> ms_per_sample;  // one slow iteration is not a slow replica
    std::optional<planner::ClippedMean> ms_per_weight;
  };
  void compare(const Replica& replica, double samples, double weight, double ms);

  std::vector<Replica> replicas_;    // index: replica id
  double samples_ = 0, weight_ = 0;  // sums over all iterations that had a weight
  // Moving averages of |ln(time / predicted time)|.
  double sample_error_ = 0, weight_error_ = 0;
};

}  // namespace paceline::control
