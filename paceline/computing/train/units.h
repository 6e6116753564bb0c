// A run of a model's units on the caller's weights. A Stage and a LocalModel compute with it, and it keeps
// the promises of stage.h. For this folder only; libtorch's exceptions pass through. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/parameters/ps/float_range.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

// Mean cross entropy, in nats: [n, …, classes] against [n, …].
torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets);

class Units {
 public:
  // Keeps only units [begin, end), without the values of their parameters: until start() they need no memory.
  // Requires: at least one unit, and the model has them.
  Units(torch::nn::Sequential model, std::int64_t begin, std::int64_t end);

  // The layout of the whole model.
  const ps::Layout& layout() const { return layout_; }
  // The places of these units' tensors in the layout, with neighbours joined.
  std::vector<ps::FloatRange> floats() const;

  // The next functions are like those of Stage.
  void start(std::span<const float* const> weights, std::span<float* const> gradients, std::uint64_t seed);
  torch::Tensor forward(std::int64_t micro, const torch::Tensor& input, double share);
  double forward(std::int64_t micro, const torch::Tensor& input, const torch::Tensor& targets, double share);
  torch::Tensor backward(std::int64_t micro, const torch::Tensor& output_gradient);

  // Evaluates without gradients, on running statistics; ends an iteration under way.
  void start_evaluation(std::span<const float* const> weights);
  torch::Tensor evaluate(const torch::Tensor& input);

 private:
  struct Own {
    std::size_t place;     // place in the layout
    torch::Tensor tensor;  // the model's own
    ps::TensorSpec spec;
  };
  // A micro-batch between its two passes. The graph hangs on `output`.
  struct Pending {
    torch::Tensor input;
    torch::Tensor output;           // the loss, in the last stage
    torch::Tensor output_gradient;  // in the last stage the micro-batch's share; else undefined
  };

  void bind_weights(std::span<const float* const> weights);
  void bind_gradients(std::span<float* const> gradients);
  void read_statistics();
  void add_statistics(double share);
  torch::Tensor run(torch::Tensor x);

  ps::Layout layout_;
  std::size_t first_ = 0;  // the number of the first unit in the model
  std::vector<torch::nn::AnyModule> units_;
  std::vector<Own> parameters_;
  std::vector<Own> statistics_;
  std::vector<const float*> weights_;  // one for each tensor of the layout
  std::vector<float*> gradients_;      // the same
  std::map<std::int64_t, Pending> pending_;
};

}  // namespace paceline::train
