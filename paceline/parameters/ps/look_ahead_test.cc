// How far ahead, against the sum written out and against the optimizer itself; and the one pass that goes
// there.
#include "paceline/parameters/ps/look_ahead.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/parameters/ps/fused_update.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;

constexpr double kRate = 0.3;

OptimizerConfig sgd(double momentum) { return {.kind = OptimizerKind::kSgd, .momentum = momentum}; }

double written_out(double momentum, int staleness, double fraction) {
  double sum = 0;
  for (int i = 1; i <= staleness; ++i) sum += std::pow(momentum, i * fraction);
  return kRate * fraction * sum;
}

TEST(LookAheadReach, IsTheSumOverTheCommitsToCome) {
  for (const double momentum : {0.1, 0.5, 0.9, 0.99, 0.999999}) {
    for (const double fraction : {1e-3, 0.125, 0.5, 1.0}) {
      for (const int staleness : {1, 2, 7, 30}) {
        const double expected = written_out(momentum, staleness, fraction);
        EXPECT_NEAR(look_ahead_reach(sgd(momentum), kRate, staleness, fraction), expected, 1e-9 * expected)
            << momentum << ", " << fraction << ", " << staleness;
      }
    }
  }
}

TEST(LookAheadReach, RisesBetweenWholeNumbersOfCommits) {
  const double one = look_ahead_reach(sgd(0.9), kRate, 1, 0.125);
  const double half_more = look_ahead_reach(sgd(0.9), kRate, 1.5, 0.125);
  const double two = look_ahead_reach(sgd(0.9), kRate, 2, 0.125);
  EXPECT_LT(one, half_more);
  EXPECT_LT(half_more, two);
  EXPECT_NEAR(half_more, (one + two) / 2, 0.01 * one);
}

TEST(LookAheadReach, IsNothingWithoutDelayOrWithoutMomentum) {
  EXPECT_EQ(look_ahead_reach(sgd(0.9), kRate, 0, 1), 0);
  EXPECT_EQ(look_ahead_reach(sgd(0.0), kRate, 7, 1), 0);
  EXPECT_EQ(look_ahead_reach(sgd(0.9), kRate, 7, 0), 0);
  EXPECT_EQ(look_ahead_reach(sgd(0.9), 0, 7, 1), 0);
}

TEST(LookAheadReach, HasALimitWhereNothingFades) {
  EXPECT_DOUBLE_EQ(look_ahead_reach(sgd(1.0), kRate, 7, 0.25), kRate * 0.25 * 7);
  EXPECT_NEAR(look_ahead_reach(sgd(1.0 - 1e-15), kRate, 7, 0.25), kRate * 0.25 * 7, 1e-9);
}

TEST(LookAheadReach, TakesAdamsFirstMomentForMomentum) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kAdamax, OptimizerKind::kNadam}) {
    const OptimizerConfig adam{.kind = kind, .momentum = 0.2, .beta1 = 0.8};
    EXPECT_EQ(look_ahead_reach(adam, kRate, 5, 0.5), look_ahead_reach(sgd(0.8), kRate, 5, 0.5));
  }
}

// The prediction is the weight after commits that bring no gradient.
TEST(LookAheadReach, IsWhereTheVelocityCarriesTheWeights) {
  const OptimizerConfig config = sgd(0.9);
  constexpr double kFraction = 0.25;
  const StepNumbers k = step_numbers(config, kRate, kFraction, 1);
  double weight = 2.0;
  double velocity = 0.7;
  const double predicted = weight - look_ahead_reach(config, kRate, 6, kFraction) * velocity;
  for (int i = 0; i < 6; ++i) {
    velocity = double{k.momentum} * velocity;
    weight -= double{k.rate} * velocity;
  }
  EXPECT_NEAR(predicted, weight, 1e-6);
}

// The same for the others, by the fused pass itself.
TEST(LookAheadReach, IsWhereEachOptimizerCarriesTheWeights) {
  const std::vector<float> nothing(1, 0.0f);
  const std::vector<Weighted> none{{nothing.data(), 1.0f}};
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kNesterov, OptimizerKind::kRmsprop, OptimizerKind::kLion}) {
    const OptimizerConfig config{.kind = kind, .momentum = 0.8, .rate = 0.5};
    constexpr double kFraction = 0.25;
    const StepNumbers k = step_numbers(config, kRate, kFraction, 1);
    float weight = 2.0f, next = 0, state1 = -0.7f, state2 = 0.4f, direction = 0;
    const UpdateStreams streams{&weight, &next, &state1, &state2, &direction};
    update_direction(kind, k, streams, 0, 1);
    const double predicted = weight - look_ahead_reach(config, kRate, 6, kFraction) * double{direction};
    for (int i = 0; i < 6; ++i) {
      fused_update(kind, k, none, streams, 0, 1);
      weight = next;
    }
    EXPECT_NEAR(predicted, weight, 1e-6) << static_cast<int>(kind);
    EXPECT_GT(std::abs(weight - 2), 0.1) << static_cast<int>(kind);
  }
}

// The second moment fades meanwhile, and the momentum grows.
TEST(LookAheadReach, IsAboutWhereNadamCarriesTheWeights) {
  const std::vector<float> nothing(1, 0.0f);
  const std::vector<Weighted> none{{nothing.data(), 1.0f}};
  const OptimizerConfig config = usual_config(OptimizerKind::kNadam);
  constexpr double kFraction = 0.25, kBegin = 50;
  float weight = 2.0f, next = 0, state1 = -0.7f, state2 = 0.4f, direction = 0;
  const UpdateStreams streams{&weight, &next, &state1, &state2, &direction};
  update_direction(config.kind, step_numbers(config, kRate, kFraction, kBegin), streams, 0, 1);
  const double reach = look_ahead_reach(config, kRate, 6, kFraction), predicted = weight - reach * direction;
  for (int i = 1; i <= 6; ++i) {
    const StepNumbers k = step_numbers(config, kRate, kFraction, kBegin + i * kFraction);
    fused_update(config.kind, k, none, {&weight, &next, &state1, &state2}, 0, 1);
    weight = next;
  }
  EXPECT_NEAR(predicted, weight, 0.02 * (weight - 2));
  EXPECT_GT(weight, 2.01);
}

TEST(DirectionScale, IsAGroupsReachInTheOptimizers) {
  const OptimizerConfig whole = sgd(0.8);
  OptimizerConfig own = whole;
  EXPECT_EQ(direction_scale(whole, own), 1.0);
  own.rate = 0.25;
  EXPECT_DOUBLE_EQ(direction_scale(whole, own), 0.25);
  own.momentum = 0.4;
  EXPECT_DOUBLE_EQ(direction_scale(whole, own), 0.125);
  own.momentum = 0;
  EXPECT_EQ(direction_scale(whole, own), 0.0);
  EXPECT_EQ(direction_scale(sgd(0), whole), 1.0) << "where nobody looks ahead";
}

TEST(LookAhead, StepsAlongTheDirection) {
  const std::vector<float> weights = {1, 2, 3};
  const std::vector<float> direction = {4, 0, -2};
  std::vector<float> out(3);
  look_ahead(weights, direction, 0.5f, out);
  EXPECT_THAT(out, ElementsAre(-1, 2, 4));
}

TEST(LookAhead, LeavesWhatDoesNotMoveAlone) {
  const std::vector<float> weights = {1, 2, 3, 4};
  const std::vector<float> direction = {4, 2, 2, 2};
  std::vector<float> out = {7, 7, 7, 7};
  look_ahead(std::vector<Layout::Range>{{0, 1}, {2, 3}}, weights, direction, 0.5f, out);
  EXPECT_THAT(out, ElementsAre(-1, 7, 2, 7));
}

TEST(LookAhead, OfNothingIsTheWeights) {
  std::vector<float> weights, direction;
  for (int i = 0; i < 1000; ++i) {
    weights.push_back(std::sin(static_cast<float>(i)));
    direction.push_back(std::cos(static_cast<float>(i)) * 1e6f);
  }
  std::vector<float> out(1000);
  look_ahead(weights, direction, 0, out);
  EXPECT_EQ(out, weights);
}

}  // namespace
}  // namespace paceline::ps
