// The one pass over memory, against plain loops in double precision, and against plain loops in single
// precision to the last bit: vectorized code must round as the plain code does.
#include "paceline/parameters/ps/fused_update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/ps/testing/every_optimizer.h"
#include "paceline/parameters/ps/testing/plain_optimizers.h"

namespace paceline::ps {
namespace {

struct Problem {
  OptimizerKind kind;
  std::int64_t size;
  StepNumbers numbers;
  std::vector<std::vector<float>> gradients;
  std::vector<float> factors;
  std::vector<float> weights, state1, state2;

  std::vector<Weighted> members() const {
    std::vector<Weighted> all;
    for (std::size_t i = 0; i < gradients.size(); ++i) all.push_back({gradients[i].data(), factors[i]});
    return all;
  }
};

std::vector<float> normals(Rng& rng, std::int64_t size) {
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Problem problem(OptimizerKind kind, int members, std::int64_t size) {
  Rng rng(mix_seed({static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(members),
                    static_cast<std::uint64_t>(size)}));
  const OptimizerConfig config{.kind = kind, .weight_decay = 0.01, .own = 0.25};
  Problem p{kind,
            size,
            step_numbers(config, 0.1, 1.0 / 3, 2.0),
            {},
            {},
            normals(rng, size),
            normals(rng, size),
            normals(rng, size)};
  // AdaMax divides by it, and near 0 the quotient of rounded numbers is far from the exact one.
  const float least = kind == OptimizerKind::kAdamax ? 0.1f : 0.0f;
  for (float& second : p.state2) second = least + second * second;
  if (testing::first_is_positive(kind)) {
    for (float& first : p.state1) first = first * first;
  }
  p.numbers.direction = 0.75f;
  for (int i = 0; i < members; ++i) {
    p.gradients.push_back(normals(rng, size));
    p.factors.push_back(static_cast<float>(0.1 + rng.uniform()));
  }
  return p;
}

struct Result {
  std::vector<float> weights, state1, state2, direction;
  friend bool operator==(const Result& a, const Result& b) {
    const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
    };
    return same(a.weights, b.weights) && same(a.state1, b.state1) && same(a.state2, b.state2) &&
           same(a.direction, b.direction);
  }
};

Result before(const Problem& p) {
  const std::vector<float> untouched(p.weights.size(), -7.0f);
  return {untouched, p.state1, p.state2, untouched};
}

UpdateStreams streams_of(const Problem& p, Result& result) {
  return {p.weights.data(), result.weights.data(), result.state1.data(), result.state2.data(),
          has_direction(p.kind) ? result.direction.data() : nullptr};
}

// In pieces that end where `cuts` say.
Result fused(const Problem& p, const std::vector<std::int64_t>& cuts = {}) {
  Result result = before(p);
  const UpdateStreams streams = streams_of(p, result);
  std::int64_t begin = 0;
  for (const std::int64_t cut : cuts) {
    fused_update(p.kind, p.numbers, p.members(), streams, begin, cut);
    begin = cut;
  }
  fused_update(p.kind, p.numbers, p.members(), streams, begin, p.size);
  return result;
}

// One element after the other, in any kind of number.
template <class Number>
testing::PlainWeight<Number> plain(const Problem& p, std::size_t i) {
  testing::PlainWeight<Number> one{Number{p.weights[i]}, Number{p.state1[i]}, Number{p.state2[i]}};
  Number sum = Number{p.factors[0]} * Number{p.gradients[0][i]};
  for (std::size_t m = 1; m < p.gradients.size(); ++m)
    sum += Number{p.factors[m]} * Number{p.gradients[m][i]};
  testing::plain_step(p.kind, p.numbers, sum, one);
  one.direction *= Number{p.numbers.direction};
  return one;
}

const std::vector<OptimizerKind>& every_kind() {
  static const std::vector<OptimizerKind> kinds = [] {
    std::vector<OptimizerKind> made;
    for (const OptimizerConfig& one : testing::elementwise_optimizers()) made.push_back(one.kind);
    return made;
  }();
  return kinds;
}
constexpr std::int64_t kSizes[] = {1, 15, 16, 17, 2047, 2048, 2049, 10000};

void expect_close(float found, double expected, const std::string& what) {
  ASSERT_NEAR(found, expected, 1e-5 * (1 + std::abs(expected))) << what;
}

TEST(FusedUpdate, IsWhatThePlainLoopsGive) {
  for (const OptimizerKind kind : every_kind()) {
    for (int members = 1; members <= 9; ++members) {
      for (const std::int64_t size : kSizes) {
        const Problem p = problem(kind, members, size);
        const Result result = fused(p);
        for (std::size_t i = 0; i < p.weights.size(); ++i) {
          const std::string what = fmt::format("optimizer {}, {} members, element {} of {}",
                                               static_cast<int>(kind), members, i, size);
          const auto exact = plain<double>(p, i);
          expect_close(result.weights[i], exact.weight, what);
          expect_close(result.state1[i], exact.state1, what);
          expect_close(result.state2[i], exact.state2, what);
          const auto rounded = plain<float>(p, i);
          ASSERT_EQ(result.weights[i], rounded.weight) << what;
          ASSERT_EQ(result.state1[i], rounded.state1) << what;
          ASSERT_EQ(result.state2[i], rounded.state2) << what;
          if (!has_direction(kind)) continue;
          expect_close(result.direction[i], exact.direction, what);
          ASSERT_EQ(result.direction[i], rounded.direction) << what;
        }
      }
    }
  }
}

TEST(FusedUpdate, DoesNotDependOnHowTheRangeIsCut) {
  for (const OptimizerKind kind : every_kind()) {
    const Problem p = problem(kind, 5, 10000);
    const Result whole = fused(p);
    EXPECT_EQ(fused(p, {16}), whole);
    EXPECT_EQ(fused(p, {1, 2, 3, 4, 5, 6, 7}), whole);
    EXPECT_EQ(fused(p, {2048, 4096}), whole);
    EXPECT_EQ(fused(p, {2047, 2049, 9999}), whole);
    EXPECT_EQ(fused(p, {0, 5000, 5000}), whole) << "empty pieces";
    Rng rng(7);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::int64_t> cuts;
      for (std::int64_t at = 0; at < p.size; at += 1 + static_cast<std::int64_t>(rng.below(3000)))
        cuts.push_back(at);
      EXPECT_EQ(fused(p, cuts), whole);
    }
  }
}

TEST(FusedUpdate, LeavesWhatIsOutsideItsRangeAlone) {
  const Problem p = problem(OptimizerKind::kAdam, 2, 100);
  Result result = before(p);
  fused_update(p.kind, p.numbers, p.members(), streams_of(p, result), 30, 61);
  for (std::size_t i = 0; i < 100; ++i) {
    if (i >= 30 && i < 61) continue;
    EXPECT_EQ(result.weights[i], -7.0f) << i;
    EXPECT_EQ(result.state1[i], p.state1[i]) << i;
    EXPECT_EQ(result.state2[i], p.state2[i]) << i;
    EXPECT_EQ(result.direction[i], -7.0f) << i;
  }
}

TEST(FusedUpdate, WithoutADirectionIsTheSameUpdate) {
  for (const OptimizerKind kind : every_kind()) {
    const Problem p = problem(kind, 3, 5000);
    Result result = before(p);
    UpdateStreams streams = streams_of(p, result);
    streams.direction = nullptr;
    fused_update(p.kind, p.numbers, p.members(), streams, 0, p.size);
    Result expected = fused(p);
    expected.direction = before(p).direction;
    EXPECT_EQ(result, expected);
  }
}

TEST(UpdateDirection, IsThatOfTheUpdateBeforeIt) {
  for (const OptimizerKind kind : every_kind()) {
    if (!has_direction(kind)) continue;
    const Problem p = problem(kind, 3, 5000);
    const Result updated = fused(p);
    Result again = updated;
    std::fill(again.direction.begin(), again.direction.end(), -7.0f);
    update_direction(kind, p.numbers, streams_of(p, again), 0, p.size);
    EXPECT_EQ(again, updated);
  }
}

TEST(UpdateDirection, IsNothingForAWeightThatNoStepHasMoved) {
  for (const OptimizerKind kind : every_kind()) {
    if (!has_direction(kind)) continue;
    Problem p = problem(kind, 1, 20);
    p.state1.assign(20, 0.0f);
    p.state2.assign(20, 0.0f);
    Result result = before(p);
    update_direction(kind, p.numbers, streams_of(p, result), 0, 20);
    EXPECT_EQ(result.direction, std::vector<float>(20, 0.0f)) << static_cast<int>(kind);
  }
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Every position of a block of vectors and its tail, of every member.
TEST(FusedUpdate, KnowsWhetherAllIsFinite) {
  for (const OptimizerKind kind : every_kind()) {
    for (const std::int64_t size : {1, 15, 16, 17, 31, 77}) {
      Problem p = problem(kind, 3, size);
      Result result = before(p);
      EXPECT_TRUE(fused_update(kind, p.numbers, p.members(), streams_of(p, result), 0, size));
      for (const float bad : {kNan, -kNan, kInf, -kInf}) {
        for (std::size_t member = 0; member < 3; ++member) {
          for (std::size_t at = 0; at < static_cast<std::size_t>(size); ++at) {
            const float good = std::exchange(p.gradients[member][at], bad);
            Result found = before(p);
            ASSERT_FALSE(fused_update(kind, p.numbers, p.members(), streams_of(p, found), 0, size))
                << static_cast<int>(kind) << ": " << bad << " at " << at << " of " << size;
            p.gradients[member][at] = good;
          }
        }
      }
    }
  }
}

// In the last element of a long range, where nothing else is wrong; and outside of the range.
TEST(FusedUpdate, LooksAtItsRangeAlone) {
  for (const OptimizerKind kind : every_kind()) {
    Problem p = problem(kind, 2, 5000);
    p.gradients[1][4321] = kNan;
    Result result = before(p);
    const UpdateStreams streams = streams_of(p, result);
    EXPECT_TRUE(fused_update(kind, p.numbers, p.members(), streams, 0, 4321));
    EXPECT_TRUE(fused_update(kind, p.numbers, p.members(), streams, 4322, 5000));
    result = before(p);
    EXPECT_FALSE(fused_update(kind, p.numbers, p.members(), streams_of(p, result), 0, 4322));
  }
}

// A finite gradient whose square is not, weights that overflow, and momentum that a sign would hide.
TEST(FusedUpdate, KnowsOfStateThatOverflows) {
  int in_state_alone = 0;
  for (const OptimizerKind kind : every_kind()) {
    Problem p = problem(kind, 1, 40);
    p.gradients[0][33] = 1e25f;
    Result result = before(p);
    const bool finite = fused_update(kind, p.numbers, p.members(), streams_of(p, result), 0, 40);
    const bool weights = all_finite(result.weights.data(), 40);
    EXPECT_EQ(finite,
              weights && all_finite(result.state1.data(), 40) && all_finite(result.state2.data(), 40));
    in_state_alone += weights && !finite;
  }
  EXPECT_GE(in_state_alone, 3) << "Adam's, AdamW's and RMSprop's squares, which the weights do not show";
  for (const OptimizerKind kind : every_kind()) {
    Problem p = problem(kind, 1, 40);
    p.numbers.rate = 2e38f;
    p.weights.assign(40, -3e38f);
    p.gradients[0].assign(40, 5.0f);
    p.state1.assign(40, 5.0f);
    p.state2.assign(40, 1.0f);
    Result result = before(p);
    EXPECT_FALSE(fused_update(kind, p.numbers, p.members(), streams_of(p, result), 0, 40));
  }
}

TEST(AllFinite, IsWhetherTheyAre) {
  std::vector<float> values(100, std::numeric_limits<float>::max());
  values[3] = -values[3];
  values[4] = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(all_finite(values.data(), 100));
  EXPECT_TRUE(all_finite(values.data(), 0));
  for (const float bad : {kNan, -kNan, kInf, -kInf}) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float good = std::exchange(values[i], bad);
      ASSERT_FALSE(all_finite(values.data(), 100)) << i;
      values[i] = good;
    }
  }
}

TEST(SumOfSquares, IsThatOfTheMembersSum) {
  for (const std::int64_t size : {1, 15, 16, 17, 100, 2047, 2048}) {
    const Problem p = problem(OptimizerKind::kSgd, 3, size);
    double expected = 0;
    for (std::size_t i = 0; i < p.weights.size(); ++i) {
      float sum = p.factors[0] * p.gradients[0][i];
      for (std::size_t m = 1; m < 3; ++m) sum += p.factors[m] * p.gradients[m][i];
      expected += double{sum} * double{sum};
    }
    EXPECT_NEAR(sum_of_squares(p.members(), 0, size), expected, 1e-12 * expected) << size;
  }
  Problem p = problem(OptimizerKind::kSgd, 3, 100);
  for (const float bad : {kNan, kInf, -kInf}) {
    p.gradients[1][99] = bad;
    EXPECT_FALSE(std::isfinite(sum_of_squares(p.members(), 0, 100)));
    EXPECT_TRUE(std::isfinite(sum_of_squares(p.members(), 0, 99)));
  }
}

TEST(SumOfBlocks, AddsGroupsOfSixtyFourInOrder) {
  // 1 is lost beside 2⁵³, and 64 of them together are not.
  std::vector<double> squares(3 * 64, 1.0);
  squares[0] = std::ldexp(1.0, 53);
  EXPECT_EQ(sum_of_blocks(squares), std::ldexp(1.0, 53) + 2 * 64);
  EXPECT_EQ(sum_of_blocks(std::span(squares).first(64)), std::ldexp(1.0, 53));
  EXPECT_EQ(sum_of_blocks(std::span(squares).first(66)), std::ldexp(1.0, 53) + 2);
  EXPECT_EQ(sum_of_blocks({}), 0.0);
}

TEST(FusedUpdate, ScalesTheSumBeforeAllElse) {
  for (const OptimizerKind kind : every_kind()) {
    Problem p = problem(kind, 1, 3000);
    p.factors[0] = 1;
    p.numbers.gradient = 0.37f;
    const Result found = fused(p);
    p.numbers.gradient = 1;
    for (float& one : p.gradients[0]) one = 0.37f * one;
    EXPECT_EQ(found, fused(p)) << static_cast<int>(kind);
  }
}

TEST(FusedAverage, IsTheWeightedSum) {
  for (const std::int64_t size : kSizes) {
    const Problem p = problem(OptimizerKind::kSgd, 4, size);
    std::vector<float> next(static_cast<std::size_t>(size) + 2, -7.0f);
    fused_average(p.members(), next.data(), 0, size);
    for (std::size_t i = 0; i < p.weights.size(); ++i) {
      double expected = 0;
      for (std::size_t m = 0; m < 4; ++m) expected += double{p.factors[m]} * double{p.gradients[m][i]};
      expect_close(next[i], expected, "average");
    }
    EXPECT_EQ(next[static_cast<std::size_t>(size)], -7.0f) << "one past the end";
  }
}

TEST(AverageStatistics, KeepsANumberThatAllMembersHave) {
  for (const std::int64_t size : kSizes) {
    for (const std::size_t count : {1, 3, 10}) {
      Problem p = problem(OptimizerKind::kSgd, count, size);
      p.factors.assign(count, 1.0f / static_cast<float>(count));
      const float kept[] = {1.0f, std::numeric_limits<float>::lowest(), 0.1f, -0.0f};
      for (std::vector<float>& values : p.gradients) {
        for (std::size_t i = 0; i < values.size(); i += 2) values[i] = kept[i / 2 % std::size(kept)];
      }
      std::vector<float> sum(static_cast<std::size_t>(size));
      fused_average(p.members(), sum.data(), 0, size);
      average_statistics(p.members(), p.gradients[0].data(), 0, size);  // in the memory of a member
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const float expected = count == 1   ? p.gradients[0][i]
                               : i % 2 == 0 ? kept[i / 2 % std::size(kept)]
                                            : sum[i];
        EXPECT_EQ(difference(p.gradients[0][i], expected), 0U) << count << " members, number " << i;
      }
    }
  }
}

TEST(FusedUpdate, OneMemberOfWeightOneIsPlainSgd) {
  const Problem p{OptimizerKind::kSgd, 3,        {.rate = 0.5f, .momentum = 0.25f},
                  {{1, 2, 4}},         {1.0f},   {1, 1, 1},
                  {4, 0, 8},           {0, 0, 0}};
  const Result result = fused(p);
  EXPECT_EQ(result.state1, (std::vector<float>{2, 2, 6}));
  EXPECT_EQ(result.weights, (std::vector<float>{0, 0, -2}));
}

}  // namespace
}  // namespace paceline::ps
