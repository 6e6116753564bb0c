#include "paceline/processes/compute/local_steps.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/processes/compute/shared.h"

namespace paceline::compute {

engine::Batch batch_of(SampleOrder& order, const Lease& lease) {
  const auto samples = order.samples(lease);
  return {.samples = {samples.begin(), samples.end()},
          .epoch = lease.epoch,
          .augment_seed = order.augment_seed(lease),
          .step_seed = order.step_seed(lease)};
}

std::vector<engine::Batch> step_samples(SampleOrder& order, const Lease& lease, std::int64_t steps) {
  std::vector<engine::Batch> parts;
  for (std::int64_t step = 0; step < steps; ++step) {
    engine::Batch batch =
        batch_of(order, part_of(lease, lease.size() * step / steps, lease.size() * (step + 1) / steps));
    if (!batch.samples.empty()) parts.push_back(std::move(batch));
  }
  return parts;
}

namespace {

// The samples count as trained. The step moves nothing but what a zero gradient moves.
void contribute_nothing(const ps::Layout& layout, std::span<const float* const> weights,
                        std::span<float* const> gradients) {
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const ps::TensorSpec& tensor = layout.tensors()[i];
    const std::size_t bytes = tensor.offset < layout.narrow() ? sizeof(ps::Bfloat16) : sizeof(float);
    if (tensor.kind == ps::TensorKind::kParameter)
      std::memset(gradients[i], 0, static_cast<std::size_t>(tensor.size) * bytes);
    else if (tensor.kind == ps::TensorKind::kStatistic)
      std::copy_n(weights[i], tensor.size, gradients[i]);
  }
}

}  // namespace

absl::StatusOr<engine::StepResult> step_until_taken(engine::Engine& engine, const engine::Batch& batch,
                                                    const engine::Weights& weights,
                                                    std::span<float* const> gradients,
                                                    std::int64_t micro_batch,
                                                    const engine::KeepGoing& keep_going) {
  // A loss scaler halves its scale each time, and begins with 2^16.
  constexpr int kMost = 40;
  for (int attempt = 0; attempt < kMost; ++attempt) {
    if (attempt > 0) PACELINE_RETURN_IF_ERROR(engine.prepare(batch));
    PACELINE_ASSIGN_OR_RETURN(engine::StepResult result,
                              engine.step(weights, gradients, micro_batch, keep_going));
    if (result.retry) continue;
    if (result.skipped) {
      if (!weights.on_card) contribute_nothing(engine.layout(), weights.tensors, gradients);
      result.finite = true;
    }
    return result;
  }
  return absl::FailedPreconditionError(fmt::format(
      "the program's gradient overflowed {} times in the same step, however small the loss scale; "
      "let it skip a batch that has no gradient: job.step(loss, skipped=True)",
      kMost));
}

namespace {

// Each step counts as its weight, or as its samples; a metric is the mean over the steps that have it.
class MeanOfSteps {
 public:
  void add(const engine::StepResult& step, std::size_t samples) {
    if (!any_) weight_ = 0;
    any_ = true;
    weight_ = weight_ && step.weight ? std::optional(*weight_ + *step.weight) : std::nullopt;
    const double counts = step.weight.value_or(static_cast<double>(samples));
    if (!(counts > 0)) return;
    loss_.add(step.loss, counts);
    for (const auto& [name, value] : step.metrics) metrics_[name].add(value, counts);
  }
  void tell(engine::StepResult& result) const {
    result.weight = weight_;
    result.loss = loss_.mean();
    for (const auto& [name, one] : metrics_) result.metrics[name] = one.mean();
  }

 private:
  struct Sum {
    void add(double value, double counts) { sum += counts * value, counted += counts; }
    double mean() const { return counted > 0 ? sum / counted : 0; }
    double sum = 0, counted = 0;
  };
  bool any_ = false;
  std::optional<double> weight_;
  Sum loss_;
  std::map<std::string, Sum> metrics_;
};

}  // namespace

absl::Status LocalSteps::check_stateless(const engine::Engine& engine) {
  if (engine.first_steps() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the optimizer given to join() has a state, and workers that step by themselves begin without one; "
      "take a policy "
      "without local steps, or join() with an optimizer without a state");
}

absl::StatusOr<LocalSteps> LocalSteps::create(const ps::Layout& layout,
                                              const ps::OptimizerConfig& optimizer) {
  constexpr int kShared = 3;
  std::vector<ipc::SharedFloats> shared;
  for (int i = 0; i < kShared; ++i) {
    PACELINE_ASSIGN_OR_RETURN(auto floats, ipc::SharedFloats::create("paceline-local-steps", layout.size()));
    shared.push_back(std::move(floats));
  }
  return LocalSteps(layout, optimizer, std::move(shared));
}

LocalSteps::LocalSteps(const ps::Layout& layout, const ps::OptimizerConfig& optimizer,
                       std::vector<ipc::SharedFloats> shared)
    : layout_(layout),
      optimizer_(optimizer),
      shared_(std::move(shared)),
      velocity_(static_cast<std::size_t>(layout.size())) {
  PACELINE_CHECK(optimizer.kind == ps::OptimizerKind::kSgd, "local steps of another optimizer than SGD");
}

std::vector<engine::Memory> LocalSteps::memories() const {
  std::vector<engine::Memory> all;
  for (const ipc::SharedFloats& one : shared_) all.push_back(memory_of(one, true));
  return all;
}

absl::StatusOr<engine::StepResult> LocalSteps::take(engine::Engine& engine,
                                                    std::span<const engine::Batch> batches,
                                                    double learning_rate,
                                                    std::span<const float* const> weights,
                                                    std::span<float* const> contribution,
                                                    const engine::KeepGoing& keep_going) {
  PACELINE_CHECK(!batches.empty(), "an iteration without a step");
  const ps::StepNumbers numbers = ps::step_numbers(optimizer_, learning_rate, 1, 1);
  const std::vector<float*> gradients = engine::tensor_pointers(layout_, gradient().data());
  pull(weights);
  engine::StepResult mean;
  loading_ = Duration::zero();
  MeanOfSteps measured;
  for (const engine::Batch& batch : batches) {
    const auto here = engine::tensor_pointers<const float>(layout_, this->weights().data());
    const auto began = std::chrono::steady_clock::now();
    PACELINE_RETURN_IF_ERROR(engine.prepare(batch));
    loading_ += std::chrono::steady_clock::now() - began;
    PACELINE_ASSIGN_OR_RETURN(
        const engine::StepResult result,
        step_until_taken(engine, batch, here, gradients, engine::kWholeBatch, keep_going));
    if (result.data_end) mean.data_end = result.data_end;
    if (result.data_end && result.skipped) break;  // this batch and all later ones lie behind the end
    measured.add(result, batch.samples.size());
    step(numbers);
  }
  measured.tell(mean);
  contribute(weights, contribution);
  return mean;
}

void LocalSteps::pull(std::span<const float* const> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ps::TensorSpec& tensor = layout_.tensors()[i];
    if (tensor.kind == ps::TensorKind::kConstant && with_constants_) continue;
    std::copy_n(weights[i], tensor.size, this->weights().data() + tensor.offset);
  }
  if (!with_constants_) ps::copy_constants(layout_.runs(), this->weights(), next());
  with_constants_ = true;
}

void LocalSteps::step(const ps::StepNumbers& numbers) {
  const ps::Weighted whole[] = {{gradient().data(), 1.0f}};
  const ps::UpdateStreams streams{.weights = weights().data(),
                                  .next_weights = next().data(),
                                  .state1 = velocity_.data(),
                                  .state2 = nullptr};
  for (const ps::TensorSpec& tensor : layout_.tensors()) {
    const std::int64_t end = tensor.offset + tensor.size;
    if (tensor.kind == ps::TensorKind::kParameter) {
      ps::fused_update(optimizer_.kind, numbers, whole, streams, tensor.offset, end);
    } else if (tensor.kind == ps::TensorKind::kStatistic) {
      ps::fused_average(whole, next().data(), tensor.offset, end);
    }
  }
  at_ = 1 - at_;
}

void LocalSteps::contribute(std::span<const float* const> weights, std::span<float* const> contribution) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ps::TensorSpec& tensor = layout_.tensors()[i];
    const float* end = this->weights().data() + tensor.offset;
    if (tensor.kind == ps::TensorKind::kParameter) {
      for (std::int64_t at = 0; at < tensor.size; ++at) contribution[i][at] = weights[i][at] - end[at];
    } else if (tensor.kind == ps::TensorKind::kStatistic) {
      std::copy_n(end, tensor.size, contribution[i]);
    }
  }
}

}  // namespace paceline::compute
