// Linear programs: minimise cost · x with bounds on x and on some weighted sums of it. linear_program.cc is
// the only file that knows which solver does it.
//
// Invariant: every returned solution has been checked here. It keeps every bound and every row, and its value
// equals the dual's, which proves that there is no better one (strong duality).
#pragma once

#include <limits>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::planner {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// least ≤ weights · x ≤ most.
struct LinearRow {
  std::vector<double> weights;
  double least = -kUnbounded;
  double most = kUnbounded;
};

struct LinearVariable {
  double cost = 0;
  double least = 0;
  double most = kUnbounded;
};

struct LinearProgram {
  std::vector<LinearVariable> variables;
  std::vector<LinearRow> rows;  // each with a weight for each variable
};

struct LinearSolution {
  std::vector<double> x;
  double value = 0;  // cost · x
};

// Errors: NotFound when no x keeps all rows, OutOfRange when the cost has no lower end, Internal when the
// solver's answer does not stand the check.
absl::StatusOr<LinearSolution> solve(const LinearProgram& program);

}  // namespace paceline::planner
