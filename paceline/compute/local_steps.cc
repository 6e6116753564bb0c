#include "paceline/compute/local_steps.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/ps/fused_update.h"

namespace paceline::compute {

std::vector<StepSamples> step_samples(SampleOrder& order, const Lease& lease, std::int64_t steps) {
  std::vector<StepSamples> parts;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Lease part{lease.epoch, lease.begin + lease.size() * step / steps,
                     lease.begin + lease.size() * (step + 1) / steps};
    const auto indices = order.samples(part);
    if (indices.empty()) continue;
    parts.push_back({{indices.begin(), indices.end()}, order.augment_seed(part), order.step_seed(part)});
  }
  return parts;
}

LocalSteps::LocalSteps(const ps::Layout& layout, const ps::OptimizerConfig& optimizer)
    : layout_(layout), optimizer_(optimizer) {
  PACELINE_CHECK(optimizer.kind == ps::OptimizerKind::kSgd, "local steps of another optimizer than SGD");
  for (std::vector<float>* floats : {&weights_, &next_, &gradient_, &velocity_})
    floats->assign(static_cast<std::size_t>(layout.size()), 0.0f);
}

absl::StatusOr<train::StepResult> LocalSteps::take(train::Replica& replica, const train::DataSet& data,
                                                   std::span<const StepSamples> samples, double learning_rate,
                                                   std::span<const float* const> weights,
                                                   std::span<float* const> contribution) {
  PACELINE_CHECK(!samples.empty(), "an iteration without a step");
  const ps::StepNumbers numbers = ps::step_numbers(optimizer_, learning_rate, 1, 1);
  const std::vector<float*> gradients = train::tensor_pointers(layout_, gradient_.data());
  pull(weights);
  train::StepResult mean;
  for (const StepSamples& one : samples) {
    const auto here = train::tensor_pointers<const float>(layout_, weights_.data());
    PACELINE_ASSIGN_OR_RETURN(
        const train::StepResult result,
        replica.step(data.batch(one.indices, one.augment_seed), here, gradients, one.step_seed));
    mean.loss += result.loss / static_cast<double>(samples.size());
    step(numbers);
  }
  contribute(weights, contribution);
  return mean;
}

void LocalSteps::pull(std::span<const float* const> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ps::TensorSpec& tensor = layout_.tensors()[i];
    if (tensor.kind == ps::TensorKind::kConstant && with_constants_) continue;
    std::copy_n(weights[i], tensor.size, weights_.data() + tensor.offset);
  }
  if (!with_constants_) ps::copy_constants(layout_.runs(), weights_, next_);
  with_constants_ = true;
}

void LocalSteps::step(const ps::StepNumbers& numbers) {
  const ps::Weighted whole[] = {{gradient_.data(), 1.0f}};
  const ps::UpdateStreams streams{.weights = weights_.data(),
                                  .next_weights = next_.data(),
                                  .state1 = velocity_.data(),
                                  .state2 = nullptr};
  for (const ps::TensorSpec& tensor : layout_.tensors()) {
    const std::int64_t end = tensor.offset + tensor.size;
    if (tensor.kind == ps::TensorKind::kParameter) {
      ps::fused_update(optimizer_.kind, numbers, whole, streams, tensor.offset, end);
    } else if (tensor.kind == ps::TensorKind::kStatistic) {
      ps::fused_average(whole, next_.data(), tensor.offset, end);
    }
  }
  std::swap(weights_, next_);
}

void LocalSteps::contribute(std::span<const float* const> weights,
                            std::span<float* const> contribution) const {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ps::TensorSpec& tensor = layout_.tensors()[i];
    const float* end = weights_.data() + tensor.offset;
    if (tensor.kind == ps::TensorKind::kParameter) {
      for (std::int64_t at = 0; at < tensor.size; ++at) contribution[i][at] = weights[i][at] - end[at];
    } else if (tensor.kind == ps::TensorKind::kStatistic) {
      std::copy_n(end, tensor.size, contribution[i]);
    }
  }
}

}  // namespace paceline::compute
