// The numbers of a step: exactly the plain optimizer's for a bulk commit, and for a lone one such that a
// round of lone commits moves the weights as far as one bulk commit.
#include "paceline/parameters/ps/update_rule.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "paceline/parameters/ps/testing/every_optimizer.h"
#include "paceline/parameters/ps/testing/plain_optimizers.h"

namespace paceline::ps {
namespace {

TEST(StepNumbers, ABulkCommitIsPlainSgdToTheLastBit) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
    for (const double rate : {0.1, 0.05, 1e-4}) {
      const OptimizerConfig config{.kind = OptimizerKind::kSgd, .momentum = momentum, .weight_decay = 5e-4};
      const StepNumbers numbers = step_numbers(config, rate, 1.0, 17.0);
      EXPECT_EQ(numbers.rate, static_cast<float>(rate));
      EXPECT_EQ(numbers.momentum, static_cast<float>(momentum));
      EXPECT_EQ(numbers.gain, 1.0f);
      EXPECT_EQ(numbers.coupled_decay, 5e-4f);
      EXPECT_EQ(numbers.shrink, 0.0f);
    }
  }
}

TEST(StepNumbers, ABulkCommitIsPlainAdamToTheLastBit) {
  const OptimizerConfig config{.kind = OptimizerKind::kAdam, .weight_decay = 0.01};
  const StepNumbers numbers = step_numbers(config, 1e-3, 1.0, 3.0);
  EXPECT_EQ(numbers.rate, 1e-3f);
  EXPECT_EQ(numbers.beta1, 0.9f);
  EXPECT_EQ(numbers.beta2, 0.999f);
  EXPECT_EQ(numbers.correction1, static_cast<float>(1 - 0.9 * 0.9 * 0.9));
  EXPECT_NEAR(numbers.correction2, 1 - 0.999 * 0.999 * 0.999, 1e-9);
  EXPECT_EQ(numbers.epsilon, 1e-8f);
  EXPECT_EQ(numbers.coupled_decay, 0.01f);
  EXPECT_EQ(numbers.shrink, 0.0f);
}

TEST(StepNumbers, ARoundOfLoneCommitsForgetsAsMuchAsOneBulkCommit) {
  const OptimizerConfig sgd{.kind = OptimizerKind::kSgd};
  const OptimizerConfig adam{.kind = OptimizerKind::kAdam};
  for (const int parts : {1, 2, 4, 8}) {
    EXPECT_NEAR(std::pow(step_numbers(sgd, 0.1, 1.0 / parts, 9.0).momentum, parts), 0.9, 1e-6);
    const StepNumbers lone = step_numbers(adam, 0.1, 1.0 / parts, 9.0);
    EXPECT_NEAR(std::pow(lone.beta1, parts), 0.9, 1e-6);
    EXPECT_NEAR(std::pow(lone.beta2, parts), 0.999, 1e-6);
    EXPECT_NEAR(lone.correction1, 1 - std::pow(0.9, 9), 1e-6) << "by the bulks so far, not by the commits";
    EXPECT_NEAR(lone.correction2, 1 - std::pow(0.999, 9), 1e-6);
  }
}

TEST(StepNumbers, AdamWShrinksApartFromTheGradient) {
  const OptimizerConfig config{.kind = OptimizerKind::kAdamW, .weight_decay = 0.01};
  const StepNumbers bulk = step_numbers(config, 1e-3, 1.0, 1.0);
  EXPECT_EQ(bulk.shrink, 1e-5f);
  EXPECT_EQ(bulk.coupled_decay, 0.0f);
  EXPECT_EQ(step_numbers(config, 1e-3, 0.25, 1.0).shrink, 0.25e-5f);
}

TEST(StepNumbers, StateIsOneStreamOrTwo) {
  EXPECT_EQ(state_streams(OptimizerKind::kSgd), 1);
  EXPECT_EQ(state_streams(OptimizerKind::kAdam), 2);
  EXPECT_EQ(state_streams(OptimizerKind::kAdamW), 2);
  EXPECT_EQ(state_streams(OptimizerKind::kNesterov), 1);
  EXPECT_EQ(state_streams(OptimizerKind::kRmsprop), 2);
  EXPECT_EQ(state_streams(OptimizerKind::kLion), 1);
  EXPECT_EQ(state_streams(OptimizerKind::kLars), 1);
  EXPECT_EQ(state_streams(OptimizerKind::kLamb), 2);
  EXPECT_EQ(state_streams(OptimizerKind::kAdafactor), 1);
  EXPECT_EQ(state_streams(OptimizerKind::kAdamax), 2);
  EXPECT_EQ(state_streams(OptimizerKind::kNadam), 2);
}

TEST(StepNumbers, AdafactorForgetsByTheBulksSoFar) {
  const OptimizerConfig config{.kind = OptimizerKind::kAdafactor, .epsilon = 1e-3, .weight_decay = 0.1};
  const StepNumbers bulk = step_numbers(config, 0.01, 1, 10);
  EXPECT_FLOAT_EQ(bulk.beta2, static_cast<float>(1 - std::pow(10, -0.8)));
  EXPECT_FLOAT_EQ(bulk.rate, 0.01f);
  EXPECT_FLOAT_EQ(bulk.shrink, 0.001f);
  EXPECT_FLOAT_EQ(step_numbers(config, 1, 1, 25).rate, 0.2f) << "at most the root of the number of updates";
  const StepNumbers lone = step_numbers(config, 0.01, 0.25, 10);
  EXPECT_NEAR(std::pow(lone.beta2, 4), bulk.beta2, 1e-6);
  EXPECT_FLOAT_EQ(lone.rate, 0.0025f);
  EXPECT_EQ(step_numbers(config, 0.01, 0.25, 0.25).beta2, 0) << "the first one keeps nothing";
}

// The optimizers in double precision, on one weight, driven by the numbers under test.
struct OneWeight {
  explicit OneWeight(const OptimizerConfig& optimizer) : config(optimizer) {}

  OptimizerConfig config;
  testing::PlainWeight<double> state;
  double fractions = 0;

  double weight() const { return state.weight; }
  void step(double gradient, double rate, double fraction) {
    fractions += fraction;
    testing::plain_step(config.kind, step_numbers(config, rate, fraction, fractions), gradient, state);
  }
};

TEST(StepNumbers, BulkCommitsAreWhatTheOptimizersDocument) {
  for (const OptimizerConfig& each : testing::elementwise_optimizers()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const double decay : {0.0, 0.1}) {
        const OptimizerConfig config{.kind = each.kind,
                                     .momentum = momentum,
                                     .beta1 = 0.8,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-3,
                                     .weight_decay = decay,
                                     .own = 0.25};
        OneWeight one(config);
        testing::PlainWeight<double> torch;
        for (int i = 0; i < 200; ++i) {
          const double gradient = std::sin(0.37 * i) + 0.2 * std::cos(3.1 * i);
          one.step(gradient, 0.01, 1);
          testing::with_plain(each.kind, [&](auto plain) {
            decltype(plain)::documented(config, i + 1, 0.01, gradient, torch);
          });
          ASSERT_NEAR(one.weight(), torch.weight, 1e-5) << traits_of(each.kind).name << " after " << i;
        }
        EXPECT_GT(std::abs(one.weight() - 1), 1e-3) << traits_of(each.kind).name << " moved nothing";
      }
    }
  }
}

// How far one round moves the weight under a steady gradient, once the state is steady: a round is one bulk
// commit, or `parts` lone ones.
double move_a_round(const OptimizerConfig& config, int parts, double gradient) {
  OneWeight one(config);
  const int warm_up_rounds = 20'000;
  for (int i = 0; i < warm_up_rounds * parts; ++i) one.step(gradient, 1e-12, 1.0 / parts);
  const double before = one.weight();
  for (int i = 0; i < parts; ++i) one.step(gradient, 1e-3, 1.0 / parts);
  return one.weight() - before;
}

// A float is 1 from 1 − 3e-8 on.
TEST(StepNumbers, AStateNeverKeepsAllOfItself) {
  const OptimizerConfig slow{.momentum = 0.999999, .beta1 = 0.999999, .beta2 = 0.99999999};
  for (const OptimizerKind kind : kEveryOptimizer) {
    for (const double fraction : {1.0, 1.0 / 64, 1e-5}) {
      OptimizerConfig config = slow;
      config.kind = kind;
      const StepNumbers numbers = step_numbers(config, 1e-3, fraction, 1.0);
      EXPECT_LT(numbers.beta1, 1.0f) << traits_of(kind).name << ' ' << fraction;
      EXPECT_LT(numbers.beta2, 1.0f) << traits_of(kind).name << ' ' << fraction;
      if (kind == OptimizerKind::kSgd || kind == OptimizerKind::kRmsprop) {
        EXPECT_LT(numbers.momentum, 1.0f) << fraction;
        EXPECT_GT(numbers.gain, 0.0f) << fraction;
      }
    }
  }
}

TEST(StepNumbers, ARoundOfLoneSgdCommitsMovesAsFarAsOneBulkCommit) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
    const OptimizerConfig config{.kind = OptimizerKind::kSgd, .momentum = momentum};
    const double bulk = move_a_round(config, 1, 0.7);
    EXPECT_NEAR(bulk, -1e-3 * 0.7 / (1 - momentum), 1e-5 * std::abs(bulk));
    for (const int parts : {2, 3, 4, 8, 16, 100}) {
      EXPECT_NEAR(move_a_round(config, parts, 0.7), bulk, 1e-6 * std::abs(bulk))
          << parts << " parts, momentum " << momentum;
    }
  }
}

TEST(StepNumbers, ARoundOfLoneAdamCommitsMovesAsFarAsOneBulkCommit) {
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const OptimizerConfig config{.kind = kind};
    const double bulk = move_a_round(config, 1, 0.7);
    EXPECT_NEAR(bulk, -1e-3, 1e-7);
    for (const int parts : {2, 4, 8})
      EXPECT_NEAR(move_a_round(config, parts, 0.7), bulk, 1e-6 * std::abs(bulk)) << parts;
  }
}

TEST(StepNumbers, ARoundOfLoneAdamaxCommitsMovesAsFarAsOneBulkCommitFromTheFirstRoundOn) {
  const OptimizerConfig config{.kind = OptimizerKind::kAdamax};
  EXPECT_NEAR(move_a_round(config, 1, 0.7), -1e-3, 1e-7);
  for (const int parts : {2, 4, 8}) {
    EXPECT_NEAR(move_a_round(config, parts, 0.7), -1e-3, 1e-7) << parts;
    OneWeight one(config);
    for (int i = 0; i < parts; ++i) one.step(0.7, 1e-3, 1.0 / parts);
    EXPECT_NEAR(one.weight(), 1 - 1e-3, 1e-8) << parts;
  }
}

TEST(StepNumbers, NadamsMomentaAreMultipliedUpToEachUpdate) {
  for (const double beta1 : {0.0, 0.9, 0.999}) {
    for (const double decay : {0.0, 0.004, 0.25, 1e6}) {
      const OptimizerConfig config{.kind = OptimizerKind::kNadam, .beta1 = beta1, .own = decay};
      const auto momentum = [&](int t) { return beta1 * (1 - 0.5 * std::pow(0.96, t * decay)); };
      double product = 1;
      for (int t = 1; t <= 3000; ++t) {
        product *= momentum(t);
        const double next = momentum(t + 1);
        const StepNumbers numbers = step_numbers(config, 0.1, 1, t);
        ASSERT_NEAR(numbers.gain, (1 - momentum(t)) / (1 - product), 2e-7) << t << ", " << decay;
        ASSERT_NEAR(numbers.momentum, next / (1 - product * next), 2e-7 / (1 - beta1)) << t << ", " << decay;
      }
    }
  }
}

TEST(StepNumbers, ARoundOfLoneNadamCommitsMovesAsFarAsOneBulkCommit) {
  const OptimizerConfig config = usual_config(OptimizerKind::kNadam);
  const double bulk = move_a_round(config, 1, 0.7);
  EXPECT_NEAR(bulk, -1e-3, 1e-7);
  for (const int parts : {2, 4, 8})
    EXPECT_NEAR(move_a_round(config, parts, 0.7), bulk, 1e-6 * std::abs(bulk)) << parts;
}

// While the moments fill.
TEST(StepNumbers, TheFirstRoundsOfLoneNadamCommitsMoveAboutAsFarAsTheBulk) {
  for (const int parts : {2, 8, 16}) {
    OneWeight bulk(usual_config(OptimizerKind::kNadam)), lone = bulk;
    for (int round = 1; round <= 300; ++round) {
      const double bulk_before = bulk.weight(), lone_before = lone.weight();
      bulk.step(0.7, 1e-3, 1);
      for (int i = 0; i < parts; ++i) lone.step(0.7, 1e-3, 1.0 / parts);
      const double more = (lone_before - lone.weight()) / (bulk_before - bulk.weight()) - 1;
      EXPECT_GT(more, -0.03) << parts << ", round " << round;
      EXPECT_LT(more, round == 2 ? 0.13 : 0.03) << parts << ", round " << round;
    }
    EXPECT_NEAR(lone.weight(), bulk.weight(), 1e-3 / 20) << parts;
  }
}

TEST(StepNumbers, ARoundOfLoneNesterovCommitsMovesAsFarAsOneBulkCommit) {
  for (const double momentum : {0.5, 0.9, 0.99}) {
    const OptimizerConfig config{.kind = OptimizerKind::kNesterov, .momentum = momentum};
    const double bulk = move_a_round(config, 1, 0.7);
    EXPECT_NEAR(bulk, -1e-3 * 0.7 / (1 - momentum), 1e-5 * std::abs(bulk));
    for (const int parts : {2, 3, 8, 100})
      EXPECT_NEAR(move_a_round(config, parts, 0.7), bulk, 1e-6 * std::abs(bulk)) << parts << " " << momentum;
  }
}

TEST(StepNumbers, ARoundOfLoneRmspropCommitsMovesAsFarAsOneBulkCommit) {
  for (const double momentum : {0.0, 0.9}) {
    const OptimizerConfig config{.kind = OptimizerKind::kRmsprop, .momentum = momentum, .beta2 = 0.99};
    const double bulk = move_a_round(config, 1, 0.7);
    EXPECT_NEAR(bulk, -1e-3 / (1 - momentum), 1e-5 * std::abs(bulk));
    for (const int parts : {2, 3, 8, 100})
      EXPECT_NEAR(move_a_round(config, parts, 0.7), bulk, 2e-6 * std::abs(bulk)) << parts << " " << momentum;
  }
}

// The mean of squares has no bias correction: how far off the very first round is.
TEST(StepNumbers, TheFirstRoundOfLoneRmspropCommitsMovesLessThanTwiceAsFar) {
  const OptimizerConfig config{.kind = OptimizerKind::kRmsprop, .momentum = 0, .beta2 = 0.99};
  const auto first_round = [&](int parts) {
    OneWeight one(config);
    for (int i = 0; i < parts; ++i) one.step(0.7, 1e-3, 1.0 / parts);
    return 1 - one.weight();
  };
  double before = first_round(1);
  for (const int parts : {2, 8, 100}) {
    EXPECT_GT(first_round(parts), before);
    before = first_round(parts);
    EXPECT_LT(before, 2 * first_round(1)) << parts;
  }
  EXPECT_GT(before, 1.8 * first_round(1));
}

// Adagrad's sum grows for ever, so each round is another one.
TEST(StepNumbers, RoundsOfLoneAdagradCommitsMoveLittleFartherThanTheBulk) {
  OptimizerConfig config = usual_config(OptimizerKind::kAdagrad);
  for (const int parts : {2, 8, 100}) {
    OneWeight bulk(config), lone(config);
    for (int round = 1; round <= 100; ++round) {
      const double bulk_before = bulk.weight(), lone_before = lone.weight();
      bulk.step(0.7, 1e-3, 1);
      for (int i = 0; i < parts; ++i) lone.step(0.7, 1e-3, 1.0 / parts);
      EXPECT_NEAR(lone.state.state1, bulk.state.state1, 1e-5 * bulk.state.state1);
      const double more = (lone_before - lone.weight()) / (bulk_before - bulk.weight()) - 1;
      EXPECT_GT(more, 0) << parts << ", round " << round;
      EXPECT_LT(more, round == 1 ? 1 : 0.3 / (round - 1)) << parts << ", round " << round;
    }
  }
}

// From the first commit on, and when the gradient turns round: to a round, and in the end exactly.
TEST(StepNumbers, LoneLionCommitsMoveWithTheBulk) {
  const OptimizerConfig config{.kind = OptimizerKind::kLion, .beta2 = 0.99};
  for (const int parts : {2, 8, 100}) {
    OneWeight bulk(config), lone(config);
    for (int round = 0; round < 400; ++round) {
      const double gradient = round < 100 ? 0.7 : -0.7;
      bulk.step(gradient, 1e-3, 1);
      for (int i = 0; i < parts; ++i) lone.step(gradient, 1e-3, 1.0 / parts);
      ASSERT_NEAR(lone.weight(), bulk.weight(), round < 100 ? 1e-8 : 2.1e-3) << parts << ", round " << round;
    }
    EXPECT_NEAR(move_a_round(config, parts, 0.7), -1e-3, 1e-9);
  }
}

TEST(StepNumbers, UnevenPartsOfARoundMoveAsFarAsTheWhole) {
  const OptimizerConfig config{.kind = OptimizerKind::kSgd, .momentum = 0.9};
  OneWeight one(config);
  const double parts[] = {0.5, 0.3, 0.2};
  for (int round = 0; round < 5000; ++round) {
    for (const double part : parts) one.step(0.7, 1e-12, part);
  }
  const double before = one.weight();
  for (const double part : parts) one.step(0.7, 1e-3, part);
  EXPECT_NEAR(one.weight() - before, -1e-3 * 0.7 / 0.1, 1e-6 * 7e-3);
}

// How far one gradient moves the weight in the end, when it is committed as `fraction` among lone commits of
// an eighth, which bring none.
double displacement(const OptimizerConfig& config, double fraction) {
  OneWeight one(config);
  for (int i = 0; i < 20'000; ++i) one.step(i == 1000 ? 1.0 : 0.0, 1e-3, i == 1000 ? fraction : 0.125);
  return one.weight() - 1.0;
}

TEST(StepNumbers, AGradientMovesTheWeightsInProportionToItsSamplesWhateverIsCommittedAfterIt) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
    const OptimizerConfig config{.kind = OptimizerKind::kSgd, .momentum = momentum};
    const double lone = displacement(config, 0.125);
    EXPECT_NEAR(lone, -1e-3 * 0.125 / (1 - momentum), 1e-4 * std::abs(lone)) << momentum;
    for (const double parts : {2.0, 4.0}) {
      // Not exactly: what moves within one step is counted as if it had moved at its end.
      const double expected = parts * lone;
      const double tolerance = momentum == 0.5 ? 0.12 : 0.02;
      EXPECT_NEAR(displacement(config, parts * 0.125), expected, tolerance * std::abs(expected))
          << parts << " parts, momentum " << momentum;
    }
  }
}

// The weight at which a steady gradient and weight decay cancel.
double resting_place(const OptimizerConfig& config, int parts) {
  OneWeight one(config);
  for (int i = 0; i < 40'000 * parts; ++i) one.step(0.2, 0.01, 1.0 / parts);
  return one.weight();
}

TEST(ClipFactor, IsPyTorchs) {
  EXPECT_EQ(clip_factor(0, 1), 1.0f);
  EXPECT_EQ(clip_factor(0.5, 1), 1.0f);
  EXPECT_EQ(clip_factor(4, 1), static_cast<float>(1 / (4 + 1e-6)));
  EXPECT_EQ(clip_factor(4, 0.25), static_cast<float>(0.25 / (4 + 1e-6)));
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 1.0f);
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1), 1.0f);
}

TEST(StepNumbers, AGroupsRateMultipliesTheLearningRate) {
  for (OptimizerConfig config : testing::elementwise_optimizers()) {
    const StepNumbers expected = step_numbers(config, 0.25 * 0.01, 0.5, 3);
    config.rate = 0.25;
    const StepNumbers found = step_numbers(config, 0.01, 0.5, 3);
    EXPECT_EQ(found.rate, expected.rate);
    EXPECT_EQ(found.shrink, expected.shrink);
    EXPECT_EQ(found.coupled_decay, expected.coupled_decay);
  }
}

TEST(StepNumbers, AGroupThatIsStepsBehindIsCorrectedByItsOwnSteps) {
  const OptimizerConfig adam{.kind = OptimizerKind::kAdam},
      behind{.kind = OptimizerKind::kAdam, .steps_behind = 7};
  EXPECT_EQ(step_numbers(behind, 0.1, 1, 10).correction1, step_numbers(adam, 0.1, 1, 3).correction1);
  EXPECT_EQ(step_numbers(behind, 0.1, 1, 8).correction2, step_numbers(adam, 0.1, 1, 1).correction2);
  EXPECT_EQ(step_numbers(behind, 0.1, 1, 7).correction2, step_numbers(adam, 0.1, 1, 1).correction2);
}

TEST(StepNumbers, WeightDecayBalancesAtTheSamePlaceHoweverARoundIsCut) {
  const OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.1};
  const OptimizerConfig adamw{.kind = OptimizerKind::kAdamW, .weight_decay = 0.1};
  EXPECT_NEAR(resting_place(sgd, 1), -2.0, 1e-4);     // 0.2 + 0.1 w = 0
  EXPECT_NEAR(resting_place(adamw, 1), -10.0, 1e-3);  // 1 + 0.1 w = 0
  for (const int parts : {2, 8}) {
    EXPECT_NEAR(resting_place(sgd, parts), -2.0, 1e-4) << parts;
    EXPECT_NEAR(resting_place(adamw, parts), -10.0, 1e-3) << parts;
  }
}

// How much of the weight is left after many rounds of decay alone.
double left_after(const OptimizerConfig& config, int parts) {
  OneWeight one(config);
  for (int i = 0; i < 500 * parts; ++i) one.step(0.0, 0.01, 1.0 / parts);
  return one.weight();
}

TEST(StepNumbers, WeightDecayIsAsFastHoweverARoundIsCut) {
  const OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01};
  const OptimizerConfig adamw{.kind = OptimizerKind::kAdamW, .weight_decay = 0.1};
  const OptimizerConfig nesterov{.kind = OptimizerKind::kNesterov, .momentum = 0.9, .weight_decay = 0.01};
  const OptimizerConfig lion{.kind = OptimizerKind::kLion, .beta2 = 0.99, .weight_decay = 0.1};
  for (const OptimizerConfig& config : {sgd, adamw, nesterov, lion}) {
    const double bulk = left_after(config, 1);
    EXPECT_LT(bulk, 0.7);
    for (const int parts : {2, 4, 8}) EXPECT_NEAR(left_after(config, parts), bulk, 0.01 * bulk) << parts;
  }
}

}  // namespace
}  // namespace paceline::ps
