#include "paceline/computing/train/units.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <malloc.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/computing/train/dropout.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace {

// libtorch has no read-only tensor. Nothing in a forward or backward pass writes a parameter.
torch::Tensor view_of(const float* memory, const std::vector<std::int64_t>& shape) {
  return torch::from_blob(const_cast<float*>(memory), shape, torch::kFloat32);
}

std::size_t bytes_of(const ps::TensorSpec& tensor) {
  return static_cast<std::size_t>(tensor.size) * sizeof(float);
}

// "stage2_0.conv1.weight" is of unit "stage2_0".
std::string unit_of(const std::string& tensor) { return tensor.substr(0, tensor.find('.')); }

}  // namespace

torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

Units::Units(torch::nn::Sequential model, std::int64_t begin, std::int64_t end) : layout_(layout_of(model)) {
  const auto size = static_cast<std::int64_t>(model->size());
  PACELINE_CHECK(0 <= begin && begin < end && end <= size, "units {} to {} of {}", begin, end, size);
  first_ = static_cast<std::size_t>(begin);
  std::vector<std::string> names = model->named_children().keys();
  names = {names.begin() + begin, names.begin() + end};
  units_.assign(model->begin() + begin, model->begin() + end);
  const std::vector<NamedTensor> tensors = layout_tensors(model);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (std::find(names.begin(), names.end(), unit_of(tensors[i].name)) == names.end()) continue;
    auto& list = tensors[i].kind == ps::TensorKind::kParameter ? parameters_ : statistics_;
    list.push_back({i, tensors[i].tensor, layout_.tensors()[i]});
  }
  // The parameters that libtorch drew are never read: one number stands for each until it becomes the
  // caller's memory.
  for (Own& own : parameters_) own.tensor.set_data(torch::zeros({}).expand(own.spec.shape));
  malloc_trim(0);  // The heap would keep what was in pieces of up to 32 MB.
}

std::vector<ps::FloatRange> Units::floats() const {
  std::vector<bool> own(layout_.tensors().size());
  for (const auto* list : {&parameters_, &statistics_}) {
    for (const Own& one : *list) own[one.place] = true;
  }
  std::vector<ps::FloatRange> floats;
  bool goes_on = false;
  for (std::size_t i = 0; i < own.size(); goes_on = own[i++]) {
    if (!own[i]) continue;
    const ps::TensorSpec& tensor = layout_.tensors()[i];
    if (!goes_on) floats.push_back({tensor.offset, 0});
    floats.back().end = tensor.offset + tensor.size;
  }
  return floats;
}

void Units::start(std::span<const float* const> weights, std::span<float* const> gradients,
                  std::uint64_t seed) {
  pending_.clear();
  bind_weights(weights);
  bind_gradients(gradients);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    torch::nn::Module& unit = *units_[i].ptr();
    unit.train();
    // A number of the whole model: any cut draws the same.
    if (auto* const dropout = unit.as<Dropout>()) dropout->seed(mix_seed({seed, first_ + i}));
  }
}

void Units::start_evaluation(std::span<const float* const> weights) {
  pending_.clear();
  bind_weights(weights);
  read_statistics();
  for (torch::nn::AnyModule& unit : units_) unit.ptr()->eval();
}

// Parameters become the caller's memory.
void Units::bind_weights(std::span<const float* const> weights) {
  PACELINE_CHECK(weights.size() == layout_.tensors().size(), "{} pointers for {} tensors", weights.size(),
                 layout_.tensors().size());
  weights_.assign(weights.begin(), weights.end());
  for (Own& own : parameters_) own.tensor.set_data(view_of(weights_[own.place], own.spec.shape));
}

// Autograd adds to a gradient that is there, so each starts as zeros in the caller's memory.
void Units::bind_gradients(std::span<float* const> gradients) {
  PACELINE_CHECK(gradients.size() == layout_.tensors().size(), "{} pointers for {} tensors", gradients.size(),
                 layout_.tensors().size());
  gradients_.assign(gradients.begin(), gradients.end());
  for (Own& own : parameters_) {
    std::memset(gradients_[own.place], 0, bytes_of(own.spec));
    own.tensor.mutable_grad() = view_of(gradients_[own.place], own.spec.shape);
  }
  for (const Own& own : statistics_) std::memset(gradients_[own.place], 0, bytes_of(own.spec));
}

// Statistics are copied, because a forward pass writes them.
void Units::read_statistics() {
  for (Own& own : statistics_)
    std::memcpy(own.tensor.data_ptr<float>(), weights_[own.place], bytes_of(own.spec));
}

void Units::add_statistics(double share) {
  for (const Own& own : statistics_) {
    const float* now = own.tensor.data_ptr<float>();
    float* sum = gradients_[own.place];
    for (std::int64_t i = 0; i < own.spec.size; ++i) sum[i] += static_cast<float>(share) * now[i];
  }
}

torch::Tensor Units::run(torch::Tensor x) {
  for (torch::nn::AnyModule& unit : units_) x = unit.forward(std::move(x));
  return x;
}

torch::Tensor Units::forward(std::int64_t micro, const torch::Tensor& input, double share) {
  PACELINE_CHECK(!pending_.contains(micro), "micro-batch {} is run forward twice", micro);
  // Data need no gradient, and whole numbers could have none.
  Pending pending{input.detach(), {}, {}};
  pending.input.requires_grad_(input.requires_grad());
  read_statistics();
  pending.output = run(pending.input);
  add_statistics(share);
  return pending_.emplace(micro, std::move(pending)).first->second.output;
}

double Units::forward(std::int64_t micro, const torch::Tensor& input, const torch::Tensor& targets,
                      double share) {
  const torch::Tensor loss = loss_of(forward(micro, input, share), targets);
  Pending& pending = pending_.at(micro);
  pending.output = loss;
  pending.output_gradient = torch::full_like(loss, share);
  return loss.item<double>();
}

torch::Tensor Units::backward(std::int64_t micro, const torch::Tensor& output_gradient) {
  const auto found = pending_.find(micro);
  PACELINE_CHECK(found != pending_.end(), "micro-batch {} is not run forward", micro);
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  // A first stage without parameters has nothing to learn.
  if (!pending.output.requires_grad()) return {};
  pending.output.backward(pending.output_gradient.defined() ? pending.output_gradient : output_gradient);
  return pending.input.grad();
}

torch::Tensor Units::evaluate(const torch::Tensor& input) {
  const torch::NoGradGuard no_grad;
  return run(input);
}

}  // namespace paceline::train
