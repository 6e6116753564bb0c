#include "paceline/computing/train/local_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <torch/nn/modules/container/sequential.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/initial_weights.h"
#include "paceline/computing/train/micro_batches.h"
#include "paceline/computing/train/models.h"
#include "paceline/computing/train/units.h"

namespace paceline::train {

namespace {

std::int64_t right_answers(const torch::Tensor& logits, const torch::Tensor& targets) {
  return logits.argmax(-1).eq(targets).sum().item<std::int64_t>();
}

}  // namespace

struct LocalModel::Impl {
  Impl(const config::ModelConfig& model_config, const torch::nn::Sequential& built, std::uint64_t model_seed)
      : config(model_config), seed(model_seed), units(built, 0, static_cast<std::int64_t>(built->size())) {}

  // Passes one micro-batch forward and backward; returns its mean loss.
  double pass(std::int64_t micro, const Batch& batch, double share) {
    const double loss = units.forward(micro, batch.inputs, batch.targets, share);
    units.backward(micro, {});
    return loss;
  }

  config::ModelConfig config;
  std::uint64_t seed;
  Units units;
};

LocalModel::LocalModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalModel::~LocalModel() = default;

absl::StatusOr<std::unique_ptr<LocalModel>> LocalModel::create(const config::ModelConfig& model,
                                                               const std::vector<std::int64_t>& sample_shape,
                                                               std::int64_t classes, std::uint64_t seed) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<std::unique_ptr<LocalModel>> {
    PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential built, build_model(model, sample_shape, classes));
    return std::unique_ptr<LocalModel>(new LocalModel(std::make_unique<Impl>(model, built, seed)));
  });
}

const ps::Layout& LocalModel::layout() const { return impl_->units.layout(); }

void LocalModel::initial_weights(std::span<float> out) const {
  draw_initial_weights(*find_model(impl_->config.name), impl_->config, impl_->units.layout(), impl_->seed,
                       out);
}

absl::StatusOr<StepResult> LocalModel::step(const Batch& batch, std::span<const float* const> weights,
                                            std::span<float* const> gradients, std::uint64_t seed,
                                            std::int64_t most) {
  return catch_torch("a training step", [&]() -> absl::StatusOr<StepResult> {
    impl_->units.start(weights, gradients, seed);
    const MicroBatches micros(batch.inputs.size(0), most);
    StepResult result;
    for (std::int64_t micro = 0; micro < micros.count(); ++micro) {
      const double share = micros.share(micro);
      result.loss += share * impl_->pass(micro, micro_batch(micros, batch, micro), share);
    }
    return result;
  });
}

absl::StatusOr<Evaluation> LocalModel::evaluate(const DataSet& data, std::span<const float* const> weights,
                                                std::int64_t chunk, const std::function<bool()>& keep_going) {
  PACELINE_CHECK(chunk >= 1, "chunks of {} samples", chunk);
  return catch_torch("an evaluation", [&]() -> absl::StatusOr<Evaluation> {
    impl_->units.start_evaluation(weights);
    std::vector<std::int32_t> indices(static_cast<std::size_t>(data.size()));
    std::iota(indices.begin(), indices.end(), 0);
    std::int64_t answers = 0, right = 0;
    double loss = 0;
    for (std::span<const std::int32_t> rest = indices; !rest.empty();) {
      if (!keep_going()) return absl::CancelledError("the evaluation was told to stop");
      const auto now = rest.first(std::min(rest.size(), static_cast<std::size_t>(chunk)));
      rest = rest.subspan(now.size());
      PACELINE_RETURN_IF_ERROR(data.check_unchanged());
      const Batch batch = data.batch(now, 0);
      const torch::Tensor logits = impl_->units.evaluate(batch.inputs);
      answers += batch.targets.numel();
      right += right_answers(logits, batch.targets);
      loss += loss_of(logits, batch.targets).item<double>() * static_cast<double>(batch.targets.numel());
    }
    const auto total = static_cast<double>(answers);
    return Evaluation{.loss = loss / total, .accuracy = static_cast<double>(right) / total};
  });
}

}  // namespace paceline::train
