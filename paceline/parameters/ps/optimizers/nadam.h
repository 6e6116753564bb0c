// NAdam, Adam with Nesterov's momentum: Dozat 2016, "Incorporating Nesterov Momentum into Adam", as torch.optim has it.
#pragma once

#include <cmath>

#include "paceline/parameters/ps/optimizers/adam.h"

namespace paceline::ps {

// m and v as Adam's, w ← w − η·f·((1 − μ(T))/(1 − Π(T))·g + μ(T+1)/(1 − Π(T+1))·m)/(√(v/(1 − β2^Σf)) + ε). T is the
// number of bulks so far, at least 1, and Π(T) the product of μ(1) to μ(T), which grows smoothly between them. μ is not
// raised to f: it is no state, but says how far each step goes along m instead of along its own gradient, and how far that
// counts is in the rate alone. So under a steady gradient, once the moments are steady, a round of lone commits moves the
// weights exactly as far as one bulk commit. While they fill, it moves them up to 3 % less far in the first round, up to
// 13 % farther in the second, and within 3 % from the third on; all these rounds together are off by less than a twentieth
// of one step. (With μ^f such a round would lack nearly six steps.)
class NadamStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit NadamStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        gain_(numbers.gain),
        momentum_(numbers.momentum),
        root_correction_(__builtin_sqrtf(numbers.correction2)),
        epsilon_(numbers.epsilon),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float second) const {
    const float g = gradient + decay_ * weight;
    const float next_first = beta1_ * first + (1.0f - beta1_) * g;
    const float next_second = beta2_ * second + (1.0f - beta2_) * g * g;
    const float root = __builtin_sqrtf(next_second) / root_correction_ + epsilon_;
    return {weight - rate_ * (gain_ * g + momentum_ * next_first) / root, next_first, next_second};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state2);
  }
  PACELINE_STEP_MATH float direction(float first, float second) const {
    const float root = __builtin_sqrtf(second) / root_correction_ + epsilon_;
    return direction_ * (momentum_ * first / root);
  }

 private:
  float rate_, decay_, beta1_, beta2_, gain_, momentum_, root_correction_, epsilon_, direction_;
};

struct NadamSpec {
  // μ(t) = β1·(1 − q^t/2), with q = 0.96^momentum_decay.
  static double momentum_at(const OptimizerConfig& config, double t) {
    return config.beta1 * (1 - 0.5 * std::pow(0.96, config.own * t));
  }
  // Π(t) = β1^t·exp(Σ_{i=1..t} ln(1 − q^i/2)), by the series ln(1 − x) = −Σ x^k/k, whose sums over i are geometric: also
  // for a t that is no whole number. expm1 is used because q is near 1.
  static double product_up_to(const OptimizerConfig& config, double t) {
    const double log_q = config.own * std::log(0.96);
    double sum = 0;
    for (int k = 1; k <= 53; ++k) {
      const double powers =
          log_q == 0 ? t : std::exp(k * log_q) * std::expm1(k * t * log_q) / std::expm1(k * log_q);
      sum += powers * std::pow(0.5, k) / k;
    }
    return std::pow(config.beta1, t) * std::exp(-sum);
  }
  static void set_numbers(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
    const double updates = 1.0 < commit.fractions ? commit.fractions : 1.0;
    const double next = momentum_at(config, updates + 1), product = product_up_to(config, updates);
    numbers.gain = static_cast<float>((1 - momentum_at(config, updates)) / (1 - product));
    numbers.momentum = static_cast<float>(next / (1 - product * next));
    numbers.beta1 = kept_part(config.beta1, commit.fraction);
    numbers.beta2 = kept_part(config.beta2, commit.fraction);
    numbers.correction2 = static_cast<float>(1.0 - std::pow(config.beta2, commit.fractions));
  }
  static constexpr OwnSetting kSettings[] = {{"momentum_decay", &OptimizerConfig::own, 0, 1e6}};
  // The direction fades like the first moment; that the second one fades and that μ grows is left out.
  static constexpr OptimizerTraits kTraits{.name = "nadam",
                                           .learning_rate = 0.002,
                                           .usual = {.own = 0.004},
                                           .settings = kSettings,
                                           .shown = kBetasShown,
                                           .state = {"first moment", "second moment"},
                                           .set_numbers = set_numbers,
                                           .direction_kept = kept_moment};
  using Step = NadamStep;
};

}  // namespace paceline::ps
