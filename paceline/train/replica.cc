#include "paceline/train/replica.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <torch/torch.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/train/catch_torch.h"
#include "paceline/train/initial_weights.h"
#include "paceline/train/model.h"
#include "paceline/train/models.h"

namespace paceline::train {

namespace {

// libtorch has no read-only tensor. Nothing in a forward or backward pass writes a parameter.
torch::Tensor view_of(const float* memory, const std::vector<std::int64_t>& shape) {
  return torch::from_blob(const_cast<float*>(memory), shape, torch::kFloat32);
}

std::size_t bytes_of(const ps::TensorSpec& tensor) {
  return static_cast<std::size_t>(tensor.size) * sizeof(float);
}

// [n, …, classes] against [n, …]
torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

std::int64_t right_answers(const torch::Tensor& logits, const torch::Tensor& targets) {
  return logits.argmax(-1).eq(targets).sum().item<std::int64_t>();
}

// Running statistics instead of the batch's, while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Sequential& model) : model_(model) { model_->eval(); }
  ~EvaluationMode() { model_->train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Sequential& model_;
};

}  // namespace

struct Replica::Impl {
  Impl(const config::ModelConfig& model_config, torch::nn::Sequential built, std::uint64_t model_seed)
      : config(model_config), seed(model_seed), model(std::move(built)), layout(layout_of(model)) {
    for (NamedTensor& named : layout_tensors(model)) tensors.push_back(std::move(named.tensor));
  }

  // Parameters become the caller's memory; statistics are copied, because a forward pass writes them.
  void bind_weights(std::span<const float* const> weights) {
    PACELINE_CHECK(weights.size() == tensors.size(), "{} pointers for {} tensors", weights.size(),
                   tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ps::TensorSpec& spec = layout.tensors()[i];
      if (spec.kind == ps::TensorKind::kParameter) {
        tensors[i].set_data(view_of(weights[i], spec.shape));
      } else {
        std::memcpy(tensors[i].data_ptr<float>(), weights[i], bytes_of(spec));
      }
    }
  }

  // Autograd adds to a gradient that is there, so each starts as zeros in the caller's memory.
  void bind_gradients(std::span<float* const> gradients) {
    PACELINE_CHECK(gradients.size() == tensors.size(), "{} pointers for {} tensors", gradients.size(),
                   tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ps::TensorSpec& spec = layout.tensors()[i];
      if (spec.kind != ps::TensorKind::kParameter) continue;
      std::memset(gradients[i], 0, bytes_of(spec));
      tensors[i].mutable_grad() = view_of(gradients[i], spec.shape);
    }
  }

  void copy_statistics(std::span<float* const> gradients) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ps::TensorSpec& spec = layout.tensors()[i];
      if (spec.kind != ps::TensorKind::kStatistic) continue;
      std::memcpy(gradients[i], tensors[i].data_ptr<float>(), bytes_of(spec));
    }
  }

  config::ModelConfig config;
  std::uint64_t seed;
  torch::nn::Sequential model;
  ps::Layout layout;
  std::vector<torch::Tensor> tensors;  // the model's own, in the order of the layout
};

Replica::Replica(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replica::~Replica() = default;

absl::StatusOr<std::unique_ptr<Replica>> Replica::create(const config::ModelConfig& model,
                                                         const std::vector<std::int64_t>& sample_shape,
                                                         std::int64_t classes, std::uint64_t seed) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<std::unique_ptr<Replica>> {
    PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential built, build_model(model, sample_shape, classes));
    return std::unique_ptr<Replica>(new Replica(std::make_unique<Impl>(model, std::move(built), seed)));
  });
}

const ps::Layout& Replica::layout() const { return impl_->layout; }

void Replica::initial_weights(std::span<float> out) const {
  draw_initial_weights(impl_->config, impl_->layout, impl_->seed, out);
}

absl::StatusOr<StepResult> Replica::step(const Batch& batch, std::span<const float* const> weights,
                                         std::span<float* const> gradients, std::uint64_t seed) {
  return catch_torch("a training step", [&]() -> absl::StatusOr<StepResult> {
    torch::manual_seed(seed);
    impl_->bind_weights(weights);
    impl_->bind_gradients(gradients);
    const torch::Tensor loss = loss_of(impl_->model->forward(batch.inputs), batch.targets);
    loss.backward();
    impl_->copy_statistics(gradients);
    return StepResult{loss.item<double>()};
  });
}

absl::StatusOr<Evaluation> Replica::evaluate(const DataSet& data, std::span<const float* const> weights,
                                             std::int64_t chunk, const std::function<bool()>& keep_going) {
  PACELINE_CHECK(chunk >= 1, "chunks of {} samples", chunk);
  return catch_torch("an evaluation", [&]() -> absl::StatusOr<Evaluation> {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode(impl_->model);
    impl_->bind_weights(weights);
    std::vector<std::int32_t> indices(static_cast<std::size_t>(data.size()));
    std::iota(indices.begin(), indices.end(), 0);
    std::int64_t answers = 0, right = 0;
    double loss = 0;
    for (std::span<const std::int32_t> rest = indices; !rest.empty();) {
      if (!keep_going()) return absl::CancelledError("the evaluation was told to stop");
      const auto now = rest.first(std::min(rest.size(), static_cast<std::size_t>(chunk)));
      rest = rest.subspan(now.size());
      const Batch batch = data.batch(now, 0);
      const torch::Tensor logits = impl_->model->forward(batch.inputs);
      answers += batch.targets.numel();
      right += right_answers(logits, batch.targets);
      loss += loss_of(logits, batch.targets).item<double>() * static_cast<double>(batch.targets.numel());
    }
    const auto total = static_cast<double>(answers);
    return Evaluation{loss / total, static_cast<double>(right) / total, data.size()};
  });
}

}  // namespace paceline::train
