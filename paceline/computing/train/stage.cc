#include "paceline/computing/train/stage.h"

#include <utility>

#include <fmt/format.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/models.h"
#include "paceline/computing/train/units.h"

namespace paceline::train {

namespace {

using Shape = std::vector<std::int64_t>;

Shape of_one_sample(const torch::Tensor& batch) { return {batch.sizes().begin() + 1, batch.sizes().end()}; }

// The shapes of a sample before the first unit, between the units, and after the last.
std::vector<Shape> shapes_between(torch::nn::Sequential& model, const Shape& sample_shape) {
  const torch::NoGradGuard no_grad;
  model->eval();
  Shape one = sample_shape;
  one.insert(one.begin(), 1);
  torch::Tensor x = torch::zeros(one, sample_shape.size() == 1 ? torch::kInt64 : torch::kFloat32);
  std::vector<Shape> shapes = {sample_shape};
  for (torch::nn::AnyModule& unit : *model) {
    x = unit.forward(std::move(x));
    shapes.push_back(of_one_sample(x));
  }
  return shapes;
}

}  // namespace

struct Stage::Impl {
  Units units;
  Shape input_shape;
  Shape output_shape;
  bool first;
};

Stage::Stage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stage::~Stage() = default;

absl::StatusOr<std::int64_t> unit_count(const config::ModelConfig& model, const Shape& sample_shape,
                                        std::int64_t classes) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<std::int64_t> {
    PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential built, build_model(model, sample_shape, classes));
    return static_cast<std::int64_t>(built->size());
  });
}

absl::StatusOr<std::unique_ptr<Stage>> Stage::create(const config::ModelConfig& model,
                                                     const Shape& sample_shape, std::int64_t classes,
                                                     UnitRange units) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<std::unique_ptr<Stage>> {
    PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential built, build_model(model, sample_shape, classes));
    const auto size = static_cast<std::int64_t>(built->size());
    if (units.begin < 0 || units.begin >= units.end || units.end > size) {
      return absl::InvalidArgumentError(fmt::format("{} has {} units; there is no stage of units {} to {}",
                                                    model.name, size, units.begin, units.end));
    }
    std::vector<Shape> shapes = shapes_between(built, sample_shape);
    auto impl = std::make_unique<Impl>(Impl{Units(std::move(built), units.begin, units.end),
                                            shapes[static_cast<std::size_t>(units.begin)],
                                            shapes[static_cast<std::size_t>(units.end)], units.begin == 0});
    return std::unique_ptr<Stage>(new Stage(std::move(impl)));
  });
}

const ps::Layout& Stage::layout() const { return impl_->units.layout(); }
std::vector<ps::FloatRange> Stage::floats() const { return impl_->units.floats(); }
const Shape& Stage::input_shape() const { return impl_->input_shape; }
const Shape& Stage::output_shape() const { return impl_->output_shape; }

absl::Status Stage::start(std::span<const float* const> weights, std::span<float* const> gradients,
                          std::uint64_t seed) {
  return catch_torch("the start of an iteration", [&] {
    impl_->units.start(weights, gradients, seed);
    return absl::OkStatus();
  });
}

absl::StatusOr<torch::Tensor> Stage::forward(std::int64_t micro, const torch::Tensor& input, double share) {
  return catch_torch("a forward pass", [&]() -> absl::StatusOr<torch::Tensor> {
    return impl_->units.forward(micro, input.detach().requires_grad_(!impl_->first), share).detach();
  });
}

absl::StatusOr<double> Stage::forward(std::int64_t micro, const torch::Tensor& input,
                                      const torch::Tensor& targets, double share) {
  return catch_torch("a forward pass", [&]() -> absl::StatusOr<double> {
    return impl_->units.forward(micro, input.detach().requires_grad_(!impl_->first), targets, share);
  });
}

absl::StatusOr<torch::Tensor> Stage::backward(std::int64_t micro, const torch::Tensor& output_gradient) {
  return catch_torch("a backward pass", [&]() -> absl::StatusOr<torch::Tensor> {
    return impl_->units.backward(micro, output_gradient);
  });
}

}  // namespace paceline::train
