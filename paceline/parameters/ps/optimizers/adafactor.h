// Adafactor: Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5, without momentum, as torch.optim has it.
#pragma once

#include <cmath>
#include <cstdint>

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

// ε₁ of Adafactor, as torch.optim has it.
inline constexpr float kLeastMean = 0x1p-23f;
inline constexpr float kLeastSquare = kLeastMean * kLeastMean;
// Adafactor adds the squares of a matrix's columns, and the means of its rows, in chunks of so many rows,
// each in order, and then the chunks in order.
inline constexpr std::int64_t kChunkRows = 256;

// A mean of squares after an update that brings `square`.
PACELINE_STEP_MATH float kept_mean(float beta2, float mean, float square) {
  return beta2 * mean + (1.0f - beta2) * square;
}
PACELINE_STEP_MATH float kept_square(float beta2, float mean, float gradient) {
  return beta2 * mean + (1.0f - beta2) * gradient * gradient;
}
// `share`: (1 − β2) / height.
PACELINE_STEP_MATH float kept_column(float beta2, float mean, float share, float sum) {
  return beta2 * mean + share * sum;
}
PACELINE_STEP_MATH float divided_by_root(float gradient, float square) {
  return gradient / __builtin_sqrtf(square < kLeastSquare ? kLeastSquare : square);
}
PACELINE_STEP_MATH double mean_of_rows(double sum, std::int64_t height) {
  const double mean = sum / static_cast<double>(height);
  return mean < static_cast<double>(kLeastMean) ? static_cast<double>(kLeastMean) : mean;
}
PACELINE_STEP_MATH float row_factor(float row, double mean) {
  return static_cast<float>(static_cast<double>(row) / mean);
}
PACELINE_STEP_MATH float adafactor_rate(const StepNumbers& numbers, std::int64_t size, double weights,
                                        double step) {
  const double root_of_size = __builtin_sqrt(static_cast<double>(size));
  const double limited = step / (root_of_size * static_cast<double>(numbers.threshold));
  const double mean = weights / root_of_size, least = static_cast<double>(numbers.epsilon);
  const double scale = least < mean ? mean : least;
  return static_cast<float>(static_cast<double>(numbers.rate) * scale / (1.0 < limited ? limited : 1.0));
}

struct AdafactorSpec {
  // With t the number of bulks so far, at least 1: the mean of squares keeps β2^f of itself, with β2 = 1 − t^−power; the
  // rate is f·min(η, 1/√t). The ratio RMS(w) and the limit of its step are of the weights as they are and have no state.
  static void set_numbers(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
    const double updates = 1.0 < commit.fractions ? commit.fractions : 1.0;
    const double most = 1 / std::sqrt(updates);
    numbers.rate =
        static_cast<float>((most < commit.learning_rate ? most : commit.learning_rate) * commit.fraction);
    numbers.beta2 = static_cast<float>(std::pow(1 - std::pow(updates, -config.decay_power), commit.fraction));
    numbers.threshold = static_cast<float>(config.threshold);
  }
  static constexpr OwnSetting kSettings[] = {{"decay_power", &OptimizerConfig::decay_power, 1e-9, 10},
                                             {"threshold", &OptimizerConfig::threshold, 1e-9, 1e6}};
  // Adafactor has no momentum, and so no direction. The state of a matrix is in its first few floats alone.
  static constexpr OptimizerTraits kTraits{.name = "adafactor",
                                           .learning_rate = 0.01,
                                           .usual = {.epsilon = 1e-3},
                                           .settings = kSettings,
                                           .state = {"mean of squares"},
                                           .decoupled = true,
                                           .set_numbers = set_numbers};
};

}  // namespace paceline::ps
