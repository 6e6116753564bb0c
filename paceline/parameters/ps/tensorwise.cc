#include "paceline/parameters/ps/tensorwise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"
#include "paceline/parameters/ps/step_math.h"

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

double norm_of(const float* values, std::int64_t n) { return std::sqrt(squares_of_tensor(values, n)); }

PACELINE_VECTORIZED void momentum_step(const StepNumbers& numbers, float gain,
                                       const float* __restrict weights, float* __restrict next,
                                       float* __restrict velocity, std::int64_t n) {
  const SgdStep step(numbers, gain);
  for (std::int64_t i = 0; i < n; ++i) {
    const Stepped to = step(next[i], weights[i], velocity[i], 0);
    velocity[i] = to.state1;
    next[i] = to.weight;
  }
}

void lars(const StepNumbers& k, bool adapted, const Tensor& tensor) {
  const double weights = adapted ? norm_of(tensor.weights, tensor.size) : 0;
  const double gradient = adapted ? norm_of(tensor.next, tensor.size) : 0;
  momentum_step(k, lars_gain(k, adapted, weights, gradient), tensor.weights, tensor.next, tensor.state1,
                tensor.size);
}

PACELINE_VECTORIZED void lamb_step(const StepNumbers& numbers, const float* __restrict weights,
                                   float* __restrict next, float* __restrict first, float* __restrict second,
                                   std::int64_t n) {
  const LambStep step(numbers);
  for (std::int64_t i = 0; i < n; ++i) {
    const Stepped to = step(next[i], weights[i], first[i], second[i]);
    first[i] = to.state1;
    second[i] = to.state2;
    next[i] = to.weight;
  }
}

// Puts the weights in place of the steps along which they go.
PACELINE_VECTORIZED void go_along(float kept, float rate, const float* __restrict weights,
                                  float* __restrict next, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) next[i] = go(kept, weights[i], rate, next[i]);
}

void lamb(const StepNumbers& k, bool adapted, const Tensor& tensor) {
  lamb_step(k, tensor.weights, tensor.next, tensor.state1, tensor.state2, tensor.size);
  const double weights = adapted ? norm_of(tensor.weights, tensor.size) : 0;
  const double step = adapted ? norm_of(tensor.next, tensor.size) : 0;
  go_along(1, lamb_rate(k, adapted, weights, step), tensor.weights, tensor.next, tensor.size);
}

PACELINE_VECTORIZED void divide_by_root(float beta2, float* __restrict next, float* __restrict squares,
                                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    squares[i] = kept_square(beta2, squares[i], next[i]);
    next[i] = divided_by_root(next[i], squares[i]);
  }
}

PACELINE_VECTORIZED void add_squares(const float* __restrict values, float* __restrict sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i] * values[i];
}

PACELINE_VECTORIZED void add(const float* __restrict values, float* __restrict sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i];
}

PACELINE_VECTORIZED void divide_row(float row, const float* __restrict columns, float* __restrict next,
                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) next[i] = divided_by_root(next[i], row * columns[i]);
}

// Divides a matrix of gradients by the roots of what its rows' and columns' means of squares make of it.
void divide_factored(float beta2, std::int64_t height, std::int64_t width, float* next, float* rows,
                     float* columns) {
  std::vector<float> sums(static_cast<std::size_t>(width)), chunk(sums.size());
  double of_rows = 0;
  for (std::int64_t begin = 0; begin < height; begin += kChunkRows) {
    std::fill(chunk.begin(), chunk.end(), 0.0f);
    double of_chunk = 0;
    for (std::int64_t i = begin; i < std::min(height, begin + kChunkRows); ++i) {
      const float* row = next + i * width;
      const double mean = squares_of(row, width) / static_cast<double>(width);
      rows[i] = kept_mean(beta2, rows[i], static_cast<float>(mean));
      of_chunk += double{rows[i]};
      add_squares(row, chunk.data(), width);
    }
    of_rows += of_chunk;
    add(chunk.data(), sums.data(), width);
  }
  const float share = (1.0f - beta2) / static_cast<float>(height);
  for (std::int64_t i = 0; i < width; ++i)
    columns[i] = kept_column(beta2, columns[i], share, sums[static_cast<std::size_t>(i)]);
  const double mean = mean_of_rows(of_rows, height);
  for (std::int64_t i = 0; i < height; ++i)
    divide_row(row_factor(rows[i], mean), columns, next + i * width, width);
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
  const double step = norm_of(tensor.next, tensor.size), weights = norm_of(tensor.weights, tensor.size);
  go_along(1 - k.shrink, adafactor_rate(k, tensor.size, weights, step), tensor.weights, tensor.next,
           tensor.size);
}

}  // namespace

bool tensorwise_update(OptimizerKind kind, const StepNumbers& numbers, std::span<const std::int64_t> shape,
                       const UpdateStreams& streams, std::int64_t begin) {
  const std::int64_t size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t in_state = begin - streams.state_begin;
  const Tensor tensor{streams.weights + begin, streams.next_weights + begin, streams.state1 + in_state,
                      streams.state2 + in_state, size};
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
