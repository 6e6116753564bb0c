// The optimizers that step each number by itself once more, for one weight and as plainly as possible. A new one is one
// more Plain: without it the tests do not compile.
#pragma once

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps::testing {

template <class Number>
struct PlainWeight {
  Number weight{1};
  Number state1{0}, state2{0};
  Number direction{0};  // before it is multiplied by StepNumbers::direction
};

template <class Number>
Number sign(Number value) {
  return value > 0 ? Number{1} : value < 0 ? Number{-1} : Number{0};
}

// Two functions each: step() with the numbers of a commit, in any kind of number; and documented(), update number t as
// torch.optim documents it. kFirstIsPositive: the first stream of its state is never below 0, as the second is not of any
// optimizer.
template <class Spec>
struct Plain;

template <>
struct Plain<SgdSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state1 = Number{k.momentum} * w.state1 + Number{k.gain} * g;
    w.weight = w.weight - Number{k.rate} * w.state1;
    w.direction = w.state1;
  }
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    g += o.weight_decay * w.weight;
    w.state1 = t > 1 ? o.momentum * w.state1 + g : g;
    w.weight -= lr * w.state1;
  }
};

template <>
struct Plain<NesterovSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = Number{k.gain} * (gradient + Number{k.coupled_decay} * w.weight);
    w.state1 = Number{k.momentum} * w.state1 + g;
    w.weight = w.weight - Number{k.rate} * (g + Number{k.momentum} * w.state1);
    w.direction = w.state1;
  }
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    g += o.weight_decay * w.weight;
    w.state1 = t > 1 ? o.momentum * w.state1 + g : g;
    w.weight -= lr * (g + o.momentum * w.state1);
  }
};

template <>
struct Plain<RmspropSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state2 = Number{k.beta2} * w.state2 + (Number{1} - Number{k.beta2}) * g * g;
    w.state1 =
        Number{k.momentum} * w.state1 + Number{k.gain} * (g / (std::sqrt(w.state2) + Number{k.epsilon}));
    w.weight = w.weight - Number{k.rate} * w.state1;
    w.direction = w.state1;
  }
  static void documented(const OptimizerConfig& o, int, double lr, double g, PlainWeight<double>& w) {
    g += o.weight_decay * w.weight;
    w.state2 = o.beta2 * w.state2 + (1 - o.beta2) * g * g;
    const double step = g / (std::sqrt(w.state2) + o.epsilon);
    w.state1 = o.momentum * w.state1 + step;
    w.weight -= lr * (o.momentum > 0 ? w.state1 : step);
  }
};

// The documented one is not torch's: algorithm 2 of the paper.
template <>
struct Plain<LionSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number both = Number{k.beta1} * w.state1 + (Number{1} - Number{k.beta1}) * gradient;
    w.weight = w.weight - Number{k.shrink} * w.weight - Number{k.rate} * sign(both);
    w.state1 = Number{k.beta2} * w.state1 + (Number{1} - Number{k.beta2}) * gradient;
    w.direction = sign(w.state1);
  }
  static void documented(const OptimizerConfig& o, int, double lr, double g, PlainWeight<double>& w) {
    w.weight *= 1 - lr * o.weight_decay;
    w.weight -= lr * sign(o.beta1 * w.state1 + (1 - o.beta1) * g);
    w.state1 = o.beta2 * w.state1 + (1 - o.beta2) * g;
  }
};

template <>
struct Plain<AdamSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state1 = Number{k.beta1} * w.state1 + (Number{1} - Number{k.beta1}) * g;
    w.state2 = Number{k.beta2} * w.state2 + (Number{1} - Number{k.beta2}) * g * g;
    const Number root = std::sqrt(w.state2) / std::sqrt(Number{k.correction2}) + Number{k.epsilon};
    const Number shrunk = w.weight - Number{k.shrink} * w.weight;
    w.weight = shrunk - Number{k.rate} / Number{k.correction1} * w.state1 / root;
    w.direction = w.state1 / Number{k.correction1} / root;
  }
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    step_along(o, t, lr, g + o.weight_decay * w.weight, w);
  }
  static void step_along(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    w.state1 = o.beta1 * w.state1 + (1 - o.beta1) * g;
    w.state2 = o.beta2 * w.state2 + (1 - o.beta2) * g * g;
    w.weight -= lr * (w.state1 / (1 - std::pow(o.beta1, t))) /
                (std::sqrt(w.state2 / (1 - std::pow(o.beta2, t))) + o.epsilon);
  }
};

template <>
struct Plain<AdamWSpec> : Plain<AdamSpec> {
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    w.weight *= 1 - lr * o.weight_decay;
    step_along(o, t, lr, g, w);
  }
};

template <>
struct Plain<AdamaxSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state1 = Number{k.beta1} * w.state1 + (Number{1} - Number{k.beta1}) * g;
    w.state2 = std::max(Number{k.beta2} * w.state2, std::abs(g) + Number{k.epsilon});
    w.weight = w.weight - Number{k.rate} / Number{k.correction1} * w.state1 / w.state2;
    w.direction = w.state1 / Number{k.correction1} / w.state2;
  }
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    g += o.weight_decay * w.weight;
    w.state1 = o.beta1 * w.state1 + (1 - o.beta1) * g;
    w.state2 = std::max(o.beta2 * w.state2, std::abs(g) + o.epsilon);
    w.weight -= lr / (1 - std::pow(o.beta1, t)) * w.state1 / w.state2;
  }
};

template <>
struct Plain<NadamSpec> {
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state1 = Number{k.beta1} * w.state1 + (Number{1} - Number{k.beta1}) * g;
    w.state2 = Number{k.beta2} * w.state2 + (Number{1} - Number{k.beta2}) * g * g;
    const Number root = std::sqrt(w.state2) / std::sqrt(Number{k.correction2}) + Number{k.epsilon};
    w.weight = w.weight - Number{k.rate} * (Number{k.gain} * g + Number{k.momentum} * w.state1) / root;
    w.direction = Number{k.momentum} * w.state1 / root;
  }
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    const auto momentum = [&](int i) { return o.beta1 * (1 - 0.5 * std::pow(0.96, i * o.own)); };
    double product = 1;
    for (int i = 1; i <= t; ++i) product *= momentum(i);
    const double next = momentum(t + 1);
    g += o.weight_decay * w.weight;
    w.state1 = o.beta1 * w.state1 + (1 - o.beta1) * g;
    w.state2 = o.beta2 * w.state2 + (1 - o.beta2) * g * g;
    const double root = std::sqrt(w.state2 / (1 - std::pow(o.beta2, t))) + o.epsilon;
    w.weight -= lr * (1 - momentum(t)) / (1 - product) * g / root;
    w.weight -= lr * next / (1 - product * next) * w.state1 / root;
  }
};

template <>
struct Plain<AdagradSpec> {
  static constexpr bool kFirstIsPositive = true;
  template <class Number>
  static void step(const StepNumbers& k, Number gradient, PlainWeight<Number>& w) {
    const Number g = gradient + Number{k.coupled_decay} * w.weight;
    w.state1 = w.state1 + Number{k.gain} * g * g;
    w.weight = w.weight - Number{k.rate} * (g / (std::sqrt(Number{k.own} + w.state1) + Number{k.epsilon}));
  }
  // PyTorch has the initial value in the sum.
  static void documented(const OptimizerConfig& o, int t, double lr, double g, PlainWeight<double>& w) {
    if (t == 1) w.state1 = o.own;
    g += o.weight_decay * w.weight;
    w.state1 += g * g;
    w.weight -= lr * g / (std::sqrt(w.state1) + o.epsilon);
  }
};

// Calls visit() with the kind's Plain.
template <class Visit>
void with_plain(OptimizerKind kind, Visit&& visit) {
#define PACELINE_VISIT(Name, name) \
  case OptimizerKind::k##Name:     \
    return visit(Plain<Name##Spec>{});
#define PACELINE_OTHER(Name, name) case OptimizerKind::k##Name:
  switch (kind) { PACELINE_EACH_OPTIMIZER(PACELINE_VISIT, PACELINE_OTHER) }
#undef PACELINE_VISIT
#undef PACELINE_OTHER
  ADD_FAILURE() << "tensorwise_test.cc has optimizers of whole tensors";
}

template <class Number>
void plain_step(OptimizerKind kind, const StepNumbers& numbers, Number gradient,
                PlainWeight<Number>& weight) {
  with_plain(kind, [&](auto plain) { decltype(plain)::step(numbers, gradient, weight); });
}

inline bool first_is_positive(OptimizerKind kind) {
  bool result = false;
  with_plain(kind, [&](auto plain) {
    result = requires { decltype(plain)::kFirstIsPositive; };
  });
  return result;
}

}  // namespace paceline::ps::testing
