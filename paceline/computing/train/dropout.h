// Dropout that draws from a generator of its own. libtorch's draws from the one generator of the whole process, and in
// virtual time several models of a process compute at the same time.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace paceline::train {

// While it trains, it sets each value to zero with probability p, and divides the others by 1 - p. Requires: 0 < p < 1.
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(double p);

  void reset() override {}
  torch::Tensor forward(const torch::Tensor& x);
  // The next draws follow from this seed.
  void seed(std::uint64_t seed);

 private:
  double p_;
  at::Generator generator_;
};
TORCH_MODULE(Dropout);

}  // namespace paceline::train
