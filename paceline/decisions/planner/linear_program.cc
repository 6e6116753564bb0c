#include "paceline/decisions/planner/linear_program.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <CoinPackedVector.hpp>

#include "paceline/base/check.h"

namespace paceline::planner {

namespace {

// The tolerance of a comparison, relative to the size of the value plus 1.
constexpr double kTolerance = 1e-6;

bool within(double value, double least, double most, double size) {
  const double slack = kTolerance * (1 + size);
  return value >= least - slack && value <= most + slack;
}

double dot(const std::vector<double>& weights, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j) sum += weights[j] * x[j];
  return sum;
}

double size_of(const LinearRow& row, const std::vector<double>& x) {
  double size = 0;
  for (std::size_t j = 0; j < x.size(); ++j) size += std::abs(row.weights[j] * x[j]);
  return size;
}

bool feasible(const LinearProgram& program, const std::vector<double>& x) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    const LinearVariable& variable = program.variables[j];
    if (!within(x[j], variable.least, variable.most, std::abs(x[j]))) return false;
  }
  return std::all_of(program.rows.begin(), program.rows.end(), [&](const LinearRow& row) {
    return within(dot(row.weights, x), row.least, row.most, size_of(row, x));
  });
}

// The gain of a price at the bound that it pushes against. A price of nearly 0 may have no bound.
double at_bound(double price, double least, double most, double tolerance) {
  const double bound = price > 0 ? least : most;
  if (std::isfinite(bound)) return price * bound;
  return std::abs(price) <= tolerance ? 0 : -kUnbounded;
}

// The value of the dual program at these prices of the rows: no x costs less.
double dual_value(const LinearProgram& program, const double* prices) {
  double largest = 1;
  for (const LinearVariable& variable : program.variables) {
    largest = std::max(largest, std::abs(variable.cost));
  }
  double value = 0;
  for (std::size_t i = 0; i < program.rows.size(); ++i) {
    value += at_bound(prices[i], program.rows[i].least, program.rows[i].most, kTolerance * largest);
  }
  for (std::size_t j = 0; j < program.variables.size(); ++j) {
    const LinearVariable& variable = program.variables[j];
    double reduced = variable.cost;
    for (std::size_t i = 0; i < program.rows.size(); ++i) reduced -= prices[i] * program.rows[i].weights[j];
    value += at_bound(reduced, variable.least, variable.most, kTolerance * largest);
  }
  return value;
}

void load(const LinearProgram& program, ClpSimplex& simplex) {
  const int columns = static_cast<int>(program.variables.size());
  CoinPackedMatrix matrix(false, 0, 0);
  matrix.setDimensions(0, columns);
  std::vector<double> cost, column_least, column_most, row_least, row_most;
  for (const LinearVariable& variable : program.variables) {
    cost.push_back(variable.cost);
    column_least.push_back(variable.least);
    column_most.push_back(variable.most);
  }
  for (const LinearRow& row : program.rows) {
    PACELINE_CHECK(row.weights.size() == program.variables.size(), "{} weights for {} variables",
                   row.weights.size(), program.variables.size());
    CoinPackedVector packed;
    for (int j = 0; j < columns; ++j) {
      if (row.weights[static_cast<std::size_t>(j)] != 0)
        packed.insert(j, row.weights[static_cast<std::size_t>(j)]);
    }
    matrix.appendRow(packed);
    row_least.push_back(row.least);
    row_most.push_back(row.most);
  }
  simplex.setLogLevel(0);
  simplex.loadProblem(matrix, column_least.data(), column_most.data(), cost.data(), row_least.data(),
                      row_most.data());
}

}  // namespace

absl::StatusOr<LinearSolution> solve(const LinearProgram& program) {
  ClpSimplex simplex;
  load(program, simplex);
  simplex.dual();
  if (simplex.isProvenPrimalInfeasible()) return absl::NotFoundError("no values keep all of its rows");
  if (simplex.isProvenDualInfeasible()) return absl::OutOfRangeError("its cost has no lower end");
  if (!simplex.isProvenOptimal())
    return absl::InternalError(fmt::format("the solver gave up with status {}", simplex.status()));
  LinearSolution solution;
  const double* x = simplex.getColSolution();
  solution.x.assign(x, x + program.variables.size());
  double size = 1;
  for (std::size_t j = 0; j < solution.x.size(); ++j) {
    solution.value += program.variables[j].cost * solution.x[j];
    size += std::abs(program.variables[j].cost * solution.x[j]);
  }
  if (!feasible(program, solution.x))
    return absl::InternalError("the solver's answer breaks a row of the program");
  const double bound = dual_value(program, simplex.getRowPrice());
  if (!(bound >= solution.value - kTolerance * size)) {
    return absl::InternalError(
        fmt::format("the solver's answer {} is not proven best: the dual says {}", solution.value, bound));
  }
  return solution;
}

}  // namespace paceline::planner
