// What a replica does in an iteration of local SGD: steps by itself, from the weights it pulled, with a
// velocity of its own that goes on from round to round. It contributes how far it came. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/sample_order.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/update_rule.h"
#include "paceline/train/dataset.h"
#include "paceline/train/replica.h"

namespace paceline::compute {

// What one gradient is computed on.
struct StepSamples {
  std::vector<std::int32_t> indices;
  std::uint64_t augment_seed = 0;
  std::uint64_t step_seed = 0;
};

// The samples of a lease, in so many parts that differ by at most one sample. A part that would be empty is
// left out; none when the lease is not one of this data set. Requires: at least one step.
std::vector<StepSamples> step_samples(SampleOrder& order, const Lease& lease, std::int64_t steps);

class LocalSteps {
 public:
  // Requires: SGD.
  LocalSteps(const ps::Layout& layout, const ps::OptimizerConfig& optimizer);

  // One step for each of `samples`. `weights` and `contribution`: one pointer a tensor; the contribution is
  // weights at the start − weights at the end, and for statistics what they are at the end. Errors: those of
  // Replica::step().
  absl::StatusOr<train::StepResult> take(train::Replica& replica, const train::DataSet& data,
                                         std::span<const StepSamples> samples, double learning_rate,
                                         std::span<const float* const> weights,
                                         std::span<float* const> contribution);

 private:
  void pull(std::span<const float* const> weights);
  void step(const ps::StepNumbers& numbers);
  void contribute(std::span<const float* const> weights, std::span<float* const> contribution) const;

  const ps::Layout layout_;
  const ps::OptimizerConfig optimizer_;
  bool with_constants_ = false;
  std::vector<float> weights_, next_, gradient_, velocity_;
};

}  // namespace paceline::compute
