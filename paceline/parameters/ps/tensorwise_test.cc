// Steps of whole tensors, against the papers' algorithms written down element by element in double precision;
// and a round of commits of parts of the bulk against one commit of all of it.
#include "paceline/parameters/ps/tensorwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::ps {
namespace {

using Shape = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

const Shape kShapes[] = {{},     {1},    {7},       {3, 5},       {5, 3},   {4, 1},
                         {1, 6}, {1, 1}, {2, 3, 4}, {3, 2, 5, 5}, {70, 130}};

OptimizerConfig lars() { return {.kind = OptimizerKind::kLars, .weight_decay = 0.01, .trust = 0.02}; }
OptimizerConfig lamb() {
  return {.kind = OptimizerKind::kLamb, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.01};
}
OptimizerConfig adafactor() {
  return {.kind = OptimizerKind::kAdafactor, .epsilon = 1e-3, .weight_decay = 0.01};
}

std::string name_of(const OptimizerConfig& config, const Shape& shape) {
  std::string name = std::to_string(static_cast<int>(config.kind)) + " of";
  for (const std::int64_t one : shape) name += " " + std::to_string(one);
  return name;
}

std::size_t size_of(const Shape& shape) {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

double norm(const Numbers& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// The papers' programs for one tensor and updates of the whole bulk; Adafactor as torch.optim documents it.
struct PlainTensor {
  PlainTensor(const OptimizerConfig& config, Shape of_shape, Numbers start)
      : o(config), shape(std::move(of_shape)), weights(std::move(start)) {
    first.resize(weights.size());
    second.resize(weights.size());
  }

  OptimizerConfig o;
  Shape shape;
  Numbers weights, first, second;
  std::vector<Numbers> rows, columns;  // one for each matrix
  int t = 0;

  void step(const Numbers& gradient, double lr) {
    ++t;
    if (o.kind == OptimizerKind::kLars) lars_step(gradient, lr);
    if (o.kind == OptimizerKind::kLamb) lamb_step(gradient, lr);
    if (o.kind == OptimizerKind::kAdafactor) adafactor_step(gradient, lr);
  }

  void lars_step(const Numbers& gradient, double lr) {
    double ratio = 1;
    if (shape.size() > 1 && norm(weights) > 0 && norm(gradient) > 0)
      ratio = o.trust * norm(weights) / (norm(gradient) + o.weight_decay * norm(weights));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      first[i] = o.momentum * first[i] + ratio * (gradient[i] + o.weight_decay * weights[i]);
      weights[i] -= lr * first[i];
    }
  }

  void lamb_step(const Numbers& gradient, double lr) {
    Numbers step(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      first[i] = o.beta1 * first[i] + (1 - o.beta1) * gradient[i];
      second[i] = o.beta2 * second[i] + (1 - o.beta2) * gradient[i] * gradient[i];
      const double mean = first[i] / (1 - std::pow(o.beta1, t));
      const double root = std::sqrt(second[i] / (1 - std::pow(o.beta2, t)));
      step[i] = mean / (root + o.epsilon) + o.weight_decay * weights[i];
    }
    const bool adapted = shape.size() > 1 && norm(weights) > 0 && norm(step) > 0;
    const double ratio = adapted ? norm(weights) / norm(step) : 1;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * ratio * step[i];
  }

  void adafactor_step(const Numbers& gradient, double lr) {
    const double kept = 1 - std::pow(t, -o.decay_power);
    const double root_of_size = std::sqrt(static_cast<double>(weights.size()));
    const double alpha = std::max(o.epsilon, norm(weights) / root_of_size) * std::min(lr, 1 / std::sqrt(t));
    Numbers step = shape.size() > 1 ? factored(gradient, kept) : Numbers(weights.size());
    if (shape.size() < 2) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        second[i] = kept * second[i] + (1 - kept) * gradient[i] * gradient[i];
        step[i] = gradient[i] / std::sqrt(second[i]);
      }
    }
    const double limit = std::max(1.0, norm(step) / (root_of_size * o.threshold));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] *= 1 - lr * o.weight_decay;
      weights[i] -= alpha / limit * step[i];
    }
  }

  Numbers factored(const Numbers& gradient, double kept) {
    const auto height = static_cast<std::size_t>(shape[shape.size() - 2]);
    const auto width = static_cast<std::size_t>(shape.back());
    const std::size_t matrices = weights.size() / (height * width);
    rows.resize(matrices, Numbers(height));
    columns.resize(matrices, Numbers(width));
    Numbers step(weights.size());
    for (std::size_t m = 0; m < matrices; ++m) {
      Numbers of_row(height), of_column(width);
      const std::size_t begin = m * height * width;
      for (std::size_t i = 0; i < height * width; ++i) {
        const double square = gradient[begin + i] * gradient[begin + i];
        of_row[i / width] += square / static_cast<double>(width);
        of_column[i % width] += square / static_cast<double>(height);
      }
      for (std::size_t i = 0; i < height; ++i) rows[m][i] = kept * rows[m][i] + (1 - kept) * of_row[i];
      for (std::size_t i = 0; i < width; ++i)
        columns[m][i] = kept * columns[m][i] + (1 - kept) * of_column[i];
      const double mean = std::accumulate(rows[m].begin(), rows[m].end(), 0.0) / static_cast<double>(height);
      for (std::size_t i = 0; i < height * width; ++i)
        step[begin + i] = gradient[begin + i] / std::sqrt(rows[m][i / width] * columns[m][i % width] / mean);
    }
    return step;
  }
};

// The same by the update under test, with commits of a fraction of the bulk.
struct SteppedTensor {
  SteppedTensor(const OptimizerConfig& config, Shape of_shape, const Numbers& start)
      : o(config), shape(std::move(of_shape)), weights(start.begin(), start.end()) {
    next.resize(weights.size());
    state1.resize(weights.size());
    state2.resize(weights.size());
    direction.resize(weights.size());
  }

  OptimizerConfig o;
  Shape shape;
  std::vector<float> weights, next, state1, state2, direction;
  double fractions = 0;
  bool finite = true;

  void step(const Numbers& gradient, double lr, double fraction = 1, float factor = 1) {
    fractions += fraction;
    StepNumbers numbers = step_numbers(o, lr, fraction, fractions);
    numbers.gradient = factor;
    std::copy(gradient.begin(), gradient.end(), next.begin());
    float* const second = state_streams(o.kind) == 2 ? state2.data() : state1.data();
    const UpdateStreams streams{weights.data(), next.data(), state1.data(), second,
                                has_direction() ? direction.data() : nullptr};
    finite = tensorwise_update(o.kind, numbers, shape, streams, 0);
    weights = next;
  }

  bool has_direction() const { return o.kind == OptimizerKind::kLars; }
};

Numbers random_numbers(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  Numbers numbers(size_of(shape));
  for (double& number : numbers) number = double{static_cast<float>(rng.normal())};
  return numbers;
}

class Tensorwise : public ::testing::TestWithParam<OptimizerConfig> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, Tensorwise, ::testing::Values(lars(), lamb(), adafactor()));

TEST_P(Tensorwise, CommitsOfTheBulkAreWhatThePapersSay) {
  for (const Shape& shape : kShapes) {
    const Numbers start = random_numbers(shape, 1);
    SteppedTensor ours(GetParam(), shape, start);
    PlainTensor plain(GetParam(), shape, start);
    for (int i = 0; i < 20; ++i) {
      const Numbers gradient = random_numbers(shape, 100 + static_cast<std::uint64_t>(i));
      ours.step(gradient, 0.05);
      plain.step(gradient, 0.05);
      EXPECT_TRUE(ours.finite);
    }
    double moved = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      ASSERT_NEAR(ours.weights[i], plain.weights[i], 2e-5 * (1 + std::abs(plain.weights[i])))
          << name_of(GetParam(), shape) << " at " << i;
      moved += std::abs(plain.weights[i] - start[i]);
    }
    EXPECT_GT(moved / static_cast<double>(start.size()), 1e-4) << name_of(GetParam(), shape);
  }
}

// Under a steady gradient, once the state is steady.
TEST_P(Tensorwise, ARoundOfLoneCommitsMovesAsFarAsOneBulkCommit) {
  constexpr double kTinyRate = 1e-3;
  for (const Shape& shape : {Shape{6}, Shape{5, 4}}) {
    const Numbers start = random_numbers(shape, 1), gradient = random_numbers(shape, 2);
    const auto move_a_round = [&](int parts) {
      SteppedTensor ours(GetParam(), shape, start);
      for (int i = 0; i < 300 * parts; ++i) {
        ours.step(gradient, kTinyRate, 1.0 / parts);
        // So that rounding in the weights does not count.
        std::copy(start.begin(), start.end(), ours.weights.begin());
      }
      std::vector<double> moved(start.size());
      for (int i = 0; i < parts; ++i) {
        ours.step(gradient, kTinyRate, 1.0 / parts);
        for (std::size_t j = 0; j < start.size(); ++j) moved[j] += double{ours.weights[j]} - start[j];
        std::copy(start.begin(), start.end(), ours.weights.begin());
      }
      return moved;
    };
    const std::vector<double> bulk = move_a_round(1);
    for (const int parts : {2, 4, 8}) {
      const std::vector<double> lone = move_a_round(parts);
      double off = 0;
      for (std::size_t i = 0; i < bulk.size(); ++i) off += std::abs(lone[i] - bulk[i]);
      double far = 0;
      for (const double one : bulk) far += std::abs(one);
      EXPECT_LT(off, 2e-2 * far) << name_of(GetParam(), shape) << " in " << parts;
      EXPECT_GT(far, 0);
    }
  }
}

TEST_P(Tensorwise, ScalesTheGradientBeforeAllElse) {
  const Shape shape = {3, 5};
  const Numbers start = random_numbers(shape, 1);
  Numbers gradient = random_numbers(shape, 2);
  SteppedTensor scaled(GetParam(), shape, start), plain(GetParam(), shape, start);
  scaled.step(gradient, 0.1, 1, 0.25f);
  for (double& one : gradient) one *= 0.25;
  plain.step(gradient, 0.1);
  EXPECT_EQ(scaled.weights, plain.weights);
  EXPECT_EQ(scaled.state1, plain.state1);
}

TEST_P(Tensorwise, NoticesWhatIsNotFinite) {
  for (const Shape& shape : kShapes) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      SteppedTensor ours(GetParam(), shape, random_numbers(shape, 1));
      ours.step(random_numbers(shape, 2), 0.1);
      EXPECT_TRUE(ours.finite);
      Numbers gradient = random_numbers(shape, 3);
      gradient.back() = bad;
      ours.step(gradient, 0.1);
      EXPECT_FALSE(ours.finite) << name_of(GetParam(), shape) << " with " << bad;
    }
  }
}

// A tensor of zeros, as biases begin, and a gradient of zeros, as of an expert that nobody asked.
TEST_P(Tensorwise, ZerosAreNoTrouble) {
  for (const Shape& shape : kShapes) {
    const Numbers zeros(size_of(shape));
    SteppedTensor ours(GetParam(), shape, zeros);
    for (int i = 0; i < 3; ++i) ours.step(zeros, 0.1);
    EXPECT_TRUE(ours.finite);
    EXPECT_EQ(ours.weights, std::vector<float>(zeros.size()));
    ours.step(random_numbers(shape, 1), 0.1);
    EXPECT_TRUE(ours.finite);
    EXPECT_NE(ours.weights, std::vector<float>(zeros.size())) << name_of(GetParam(), shape);
  }
}

TEST(TensorwiseDirection, OfLarsIsItsVelocity) {
  const Shape shape = {3, 5};
  const Numbers start = random_numbers(shape, 1);
  SteppedTensor ours(lars(), shape, start);
  for (int i = 0; i < 3; ++i) ours.step(random_numbers(shape, 2), 0.1);
  EXPECT_EQ(ours.direction, ours.state1);
}

}  // namespace
}  // namespace paceline::ps
