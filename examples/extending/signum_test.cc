// The example of docs/extending.md: processors and cards step it to the same bits, which are those of a plain loop, and
// lone commits move as far as the bulk.
#include "examples/extending/signum.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/cuda/kernel_bodies.h"
#include "paceline/parameters/ps/optimizers/list.h"
#include "paceline/parameters/ps/step_each.h"

namespace example {
namespace {

namespace cuda = paceline::cuda;

static_assert(ps::agree<SignumSpec, SignumSpec::Step>());

constexpr std::int32_t kFloats = 4099;

std::vector<float> normals(std::uint64_t seed) {
  paceline::Rng rng(seed);
  std::vector<float> values(std::size_t{kFloats});
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

ps::StepNumbers numbers_of(double fraction) {
  ps::StepNumbers numbers;
  numbers.rate = static_cast<float>(0.01 * fraction);
  numbers.shrink = static_cast<float>(0.01 * fraction * 0.1);
  SignumSpec::kTraits.set_numbers({.beta1 = 0.9}, {0.01, fraction, 1}, numbers);
  return numbers;
}

struct Result {
  std::vector<float> weights, mean, direction;
  friend bool operator==(const Result&, const Result&) = default;
};

const std::vector<float> kWeights = normals(1), kGradient = normals(2), kMean = normals(3);

Result plain(const ps::StepNumbers& k) {
  Result to{kWeights, kMean, kMean};
  for (std::size_t i = 0; i < std::size_t{kFloats}; ++i) {
    const float mean = k.beta1 * kMean[i] + (1.0f - k.beta1) * kGradient[i];
    const float sign = mean > 0 ? 1.0f : -1.0f;
    to.weights[i] = kWeights[i] - k.shrink * kWeights[i] - k.rate * sign;
    to.mean[i] = mean;
    to.direction[i] = sign;
  }
  return to;
}

TEST(Signum, HasTheBitsOfAPlainLoopOnAProcessor) {
  const ps::StepNumbers numbers = numbers_of(0.25);
  Result to{kWeights, kMean, kMean};
  const ps::Marks marks =
      ps::step_each<SignumStep>(numbers, kGradient.data(), kWeights.data(), to.weights.data(), to.mean.data(),
                                to.mean.data(), nullptr, nullptr, kFloats);
  ps::direction_of_each<SignumStep>(numbers, to.mean.data(), nullptr, to.direction.data(), kFloats);
  EXPECT_TRUE(ps::finite(marks));
  EXPECT_EQ(to, plain(numbers));
}

TEST(Signum, HasTheSameBitsOnACard) {
  const ps::StepNumbers numbers = numbers_of(0.25);
  Result to{kWeights, kMean, kMean};
  const cuda::Piece pieces[] = {{0, 2048, cuda::kParameterPiece, 0},
                                {2048, kFloats - 2048, cuda::kParameterPiece, 0}};
  const cuda::MemberArgument member{kGradient.data(), 1, 1};
  std::uint32_t marks = 0;
  cuda::UpdateArguments arguments;
  arguments.weights = kWeights.data();
  arguments.next = to.weights.data();
  arguments.state1 = to.mean.data();
  arguments.direction = to.direction.data();
  arguments.pieces = pieces;
  arguments.piece_count = 2;
  arguments.members = &member;
  arguments.member_count = 1;
  arguments.numbers = &numbers;
  arguments.marks = &marks;
  for (unsigned thread = 0; thread < 64; ++thread) cuda::step<SignumStep>(arguments, {0, 1, thread, 64});
  EXPECT_EQ(marks, 0u);
  EXPECT_EQ(to, plain(numbers));
}

TEST(Signum, MarksAGradientThatIsNoNumber) {
  std::vector<float> gradient = kGradient;
  gradient[77] = NAN;
  Result to{kWeights, kMean, kMean};
  EXPECT_FALSE(
      ps::finite(ps::step_each<SignumStep>(numbers_of(1), gradient.data(), kWeights.data(), to.weights.data(),
                                           to.mean.data(), to.mean.data(), nullptr, nullptr, kFloats)));
}

// A weight without decay, under a steady gradient.
TEST(Signum, ARoundOfLoneCommitsMovesAsFarAsOneBulkCommit) {
  for (const int parts : {1, 2, 8, 100}) {
    ps::StepNumbers numbers = numbers_of(1.0 / parts);
    numbers.shrink = 0;
    const SignumStep step(numbers);
    ps::Stepped one{1, 0, 0};
    for (int i = 0; i < parts; ++i) one = step(0.7f, one.weight, one.state1, 0);
    EXPECT_NEAR(one.weight, 0.99, 1e-5) << parts;
    EXPECT_NEAR(std::pow(double{numbers.beta1}, parts), 0.9, 1e-5) << parts;
  }
}

}  // namespace
}  // namespace example
