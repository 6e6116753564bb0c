#include "paceline/computing/train/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

namespace paceline::train {

DropoutImpl::DropoutImpl(double p) : p_(p), generator_(at::detail::createCPUGenerator()) {}

torch::Tensor DropoutImpl::forward(const torch::Tensor& x) {
  if (!is_training()) return x;
  return x * torch::empty_like(x).bernoulli_(1 - p_, generator_).div_(1 - p_);
}

void DropoutImpl::seed(std::uint64_t seed) { generator_ = at::detail::createCPUGenerator(seed); }

}  // namespace paceline::train
