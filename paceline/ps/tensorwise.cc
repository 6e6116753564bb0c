#include "paceline/ps/tensorwise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"

namespace paceline::ps {

namespace {

// One tensor's part of the streams.
struct Tensor {
  const float* weights;
  float* next;  // the gradient, then the step along it, then the new weights
  float* state1;
  float* state2;
  std::int64_t size;
};

PACELINE_VECTORIZED void scale(float factor, float* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = factor * values[i];
}

double norm_of(const float* values, std::int64_t n) { return std::sqrt(squares_of(values, n)); }

// Where a norm is no finite number its ratio is none either, and neither are the weights: it is seen there.
float ratio_of(double over, double under) {
  return over == 0 || under == 0 ? 1.0f : static_cast<float>(over / under);
}

PACELINE_VECTORIZED void momentum_step(const StepNumbers& k, float gain, const float* __restrict weights,
                                       float* __restrict next, float* __restrict velocity, std::int64_t n) {
  const float rate = k.rate;
  const float momentum = k.momentum;
  const float decay = k.coupled_decay;
  for (std::int64_t i = 0; i < n; ++i) {
    velocity[i] = momentum * velocity[i] + gain * (next[i] + decay * weights[i]);
    next[i] = weights[i] - rate * velocity[i];
  }
}

void lars(const StepNumbers& k, bool adapted, const Tensor& tensor) {
  float ratio = 1;
  if (adapted) {
    const double weights = norm_of(tensor.weights, tensor.size);
    const double gradient = norm_of(tensor.next, tensor.size);
    const double under = gradient + double{k.coupled_decay} * weights;
    ratio = gradient == 0 ? 1.0f : ratio_of(double{k.trust} * weights, under);
  }
  momentum_step(k, k.gain * ratio, tensor.weights, tensor.next, tensor.state1, tensor.size);
}

PACELINE_VECTORIZED void adam_step(const StepNumbers& k, const float* __restrict weights,
                                   float* __restrict next, float* __restrict first, float* __restrict second,
                                   std::int64_t n) {
  const StepNumbers c = k;
  const float root_correction = std::sqrt(c.correction2);
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = next[i];
    first[i] = c.beta1 * first[i] + (1.0f - c.beta1) * g;
    second[i] = c.beta2 * second[i] + (1.0f - c.beta2) * g * g;
    next[i] = first[i] / c.correction1 / (std::sqrt(second[i]) / root_correction + c.epsilon) +
              c.coupled_decay * weights[i];
  }
}

// next = kept · weights − rate · next.
PACELINE_VECTORIZED void go(float kept, float rate, const float* __restrict weights, float* __restrict next,
                            std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) next[i] = kept * weights[i] - rate * next[i];
}

void lamb(const StepNumbers& k, bool adapted, const Tensor& tensor) {
  adam_step(k, tensor.weights, tensor.next, tensor.state1, tensor.state2, tensor.size);
  const float ratio =
      adapted ? ratio_of(norm_of(tensor.weights, tensor.size), norm_of(tensor.next, tensor.size)) : 1.0f;
  go(1, k.rate * ratio, tensor.weights, tensor.next, tensor.size);
}

// ε₁ of Adafactor, as torch.optim has it.
constexpr float kLeastMean = std::numeric_limits<float>::epsilon();
constexpr float kLeastSquare = kLeastMean * kLeastMean;

PACELINE_VECTORIZED void divide_by_root(float beta2, float* __restrict next, float* __restrict squares,
                                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    squares[i] = beta2 * squares[i] + (1.0f - beta2) * next[i] * next[i];
    next[i] = next[i] / std::sqrt(std::max(squares[i], kLeastSquare));
  }
}

PACELINE_VECTORIZED void add_squares(const float* __restrict values, float* __restrict sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i] * values[i];
}

PACELINE_VECTORIZED void divide_row(float row, const float* __restrict columns, float* __restrict next,
                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    next[i] = next[i] / std::sqrt(std::max(row * columns[i], kLeastSquare));
}

// Divides a matrix of gradients by the roots of what its rows' and columns' means of squares make of it.
void divide_factored(float beta2, std::int64_t height, std::int64_t width, float* next, float* rows,
                     float* columns) {
  std::vector<float> sums(static_cast<std::size_t>(width));
  double of_rows = 0;
  for (std::int64_t i = 0; i < height; ++i) {
    const float* row = next + i * width;
    const double mean = squares_of(row, width) / static_cast<double>(width);
    rows[i] = beta2 * rows[i] + (1.0f - beta2) * static_cast<float>(mean);
    of_rows += double{rows[i]};
    add_squares(row, sums.data(), width);
  }
  const float share = (1.0f - beta2) / static_cast<float>(height);
  for (std::int64_t i = 0; i < width; ++i)
    columns[i] = beta2 * columns[i] + share * sums[static_cast<std::size_t>(i)];
  const double mean = std::max(of_rows / static_cast<double>(height), double{kLeastMean});
  for (std::int64_t i = 0; i < height; ++i)
    divide_row(static_cast<float>(double{rows[i]} / mean), columns, next + i * width, width);
}

void adafactor(const StepNumbers& k, std::span<const std::int64_t> shape, const Tensor& tensor) {
  const std::int64_t width = shape.empty() ? 1 : shape.back();
  const std::int64_t height = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  if (width == 1 || height == 1) {
    divide_by_root(k.beta2, tensor.next, tensor.state1, tensor.size);
  } else {
    const std::int64_t matrices = tensor.size / (width * height);
    float* const columns = tensor.state1 + matrices * height;
    for (std::int64_t i = 0; i < matrices; ++i) {
      divide_factored(k.beta2, height, width, tensor.next + i * width * height, tensor.state1 + i * height,
                      columns + i * width);
    }
  }
  const double root_of_size = std::sqrt(static_cast<double>(tensor.size));
  const double limited = norm_of(tensor.next, tensor.size) / (root_of_size * double{k.threshold});
  const double scale = std::max(double{k.epsilon}, norm_of(tensor.weights, tensor.size) / root_of_size);
  go(1 - k.shrink, static_cast<float>(double{k.rate} * scale / std::max(1.0, limited)), tensor.weights,
     tensor.next, tensor.size);
}

}  // namespace

bool tensorwise_update(OptimizerKind kind, const StepNumbers& numbers, std::span<const std::int64_t> shape,
                       const UpdateStreams& streams, std::int64_t begin) {
  const std::int64_t size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const Tensor tensor{streams.weights + begin, streams.next_weights + begin, streams.state1 + begin,
                      streams.state2 + begin, size};
  const bool adapted = shape.size() > 1;
  if (numbers.gradient != 1) scale(numbers.gradient, tensor.next, size);
  switch (kind) {
    case OptimizerKind::kLars:
      lars(numbers, adapted, tensor);
      break;
    case OptimizerKind::kLamb:
      lamb(numbers, adapted, tensor);
      break;
    case OptimizerKind::kAdafactor:
      adafactor(numbers, shape, tensor);
      break;
    default:
      PACELINE_CHECK(false, "this optimizer does not step whole tensors");
  }
  if (streams.direction != nullptr) update_direction(kind, numbers, streams, begin, begin + size);
  return all_finite(tensor.next, size) && all_finite(tensor.state1, size) && all_finite(tensor.state2, size);
}

}  // namespace paceline::ps
