// The solver behind linear_program.h against every corner of small programs.
#include "paceline/decisions/planner/linear_program.h"

#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::planner {
namespace {

double random_weight(Rng& rng) { return static_cast<double>(rng.below(21)) - 10; }

// Two variables in [0, 10], up to five rows "≤".
LinearProgram random_program(Rng& rng) {
  LinearProgram program;
  for (int j = 0; j < 2; ++j) program.variables.push_back({random_weight(rng), 0, 10});
  for (std::uint64_t i = rng.below(6); i > 0; --i) {
    program.rows.push_back(
        {{random_weight(rng), random_weight(rng)}, -kUnbounded, static_cast<double>(rng.below(60)) - 20});
  }
  return program;
}

struct Line {
  double a, b, c;  // a·x + b·y = c
};

bool keeps_all(const LinearProgram& program, double x, double y) {
  const auto over = [](double value, double most) { return value > most + 1e-7; };
  if (over(-x, 0) || over(x, 10) || over(-y, 0) || over(y, 10)) return false;
  for (const LinearRow& row : program.rows) {
    if (over(row.weights[0] * x + row.weights[1] * y, row.most)) return false;
  }
  return true;
}

// The least cost over the points where two boundaries meet; the box makes sure that one of them is best.
std::optional<double> best_corner(const LinearProgram& program) {
  std::vector<Line> lines = {{1, 0, 0}, {1, 0, 10}, {0, 1, 0}, {0, 1, 10}};
  for (const LinearRow& row : program.rows) lines.push_back({row.weights[0], row.weights[1], row.most});
  std::optional<double> best;
  for (const Line& p : lines) {
    for (const Line& q : lines) {
      const double det = p.a * q.b - p.b * q.a;
      if (det == 0) continue;
      const double x = (p.c * q.b - p.b * q.c) / det, y = (p.a * q.c - p.c * q.a) / det;
      if (!keeps_all(program, x, y)) continue;
      const double cost = program.variables[0].cost * x + program.variables[1].cost * y;
      if (!best || cost < *best) best = cost;
    }
  }
  return best;
}

TEST(LinearProgram, AgreesWithTheBestCorner) {
  Rng rng(1);
  int feasible = 0;
  for (int i = 0; i < 5000; ++i) {
    const LinearProgram program = random_program(rng);
    const auto corner = best_corner(program);
    const auto solution = solve(program);
    ASSERT_EQ(solution.ok(), corner.has_value()) << i << ": " << solution.status();
    if (!corner) {
      ASSERT_TRUE(absl::IsNotFound(solution.status())) << solution.status();
      continue;
    }
    ++feasible;
    ASSERT_NEAR(solution->value, *corner, 1e-6) << i;
  }
  EXPECT_GT(feasible, 2000);
  EXPECT_LT(feasible, 5000);
}

TEST(LinearProgram, ACostWithoutLowerEndIsSaid) {
  const LinearProgram program{{{-1, 0, kUnbounded}, {1, 0, kUnbounded}},
                              {{{1, -1}, -kUnbounded, kUnbounded}}};
  EXPECT_TRUE(absl::IsOutOfRange(solve(program).status())) << solve(program).status();
}

TEST(LinearProgram, RowsWithTwoBoundsAndEqualities) {
  // Least x + 2y with x + y = 4 and 1 ≤ x − y ≤ 2: x as large as it may be.
  const LinearProgram program{{{1, 0, kUnbounded}, {2, 0, kUnbounded}}, {{{1, 1}, 4, 4}, {{1, -1}, 1, 2}}};
  const auto solution = solve(program);
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_NEAR(solution->x[0], 3, 1e-9);
  EXPECT_NEAR(solution->x[1], 1, 1e-9);
  EXPECT_NEAR(solution->value, 5, 1e-9);
}

}  // namespace
}  // namespace paceline::planner
