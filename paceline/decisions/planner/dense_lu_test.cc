// Tests of the replacement for LAPACK that Clp is given: random systems are solved and multiplied out again.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

extern "C" {
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dgetrs_(const char* transposed, const int* n, const int* right_sides, const double* a, const int* lda,
             const int* pivots, double* b, const int* ldb, int* info);
}

namespace paceline::planner {
namespace {

std::vector<double> random_numbers(Rng& random, int count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = random.uniform() < 0.3 ? 0 : 2 * random.uniform() - 1;
  return numbers;
}

TEST(DenseLu, SolvesWhatItFactorized) {
  Rng random(1);
  for (int size = 1; size <= 60; ++size) {
    for (const char* transposed : {"N", "T"}) {
      const int stride = size + 3, sides = 2, side_stride = size + 1;
      std::vector<double> matrix = random_numbers(random, stride * size);
      for (int i = 0; i < size; ++i)
        matrix[static_cast<std::size_t>(i * stride + (i + 1) % size)] += 3;  // not singular
      const std::vector<double> wanted = random_numbers(random, side_stride * sides);
      std::vector<double> factors = matrix, x = wanted;
      std::vector<int> pivots(static_cast<std::size_t>(size));
      int info = -1;
      dgetrf_(&size, &size, factors.data(), &stride, pivots.data(), &info);
      ASSERT_EQ(info, 0);
      dgetrs_(transposed, &size, &sides, factors.data(), &stride, pivots.data(), x.data(), &side_stride,
              &info);
      ASSERT_EQ(info, 0);
      for (int side = 0; side < sides; ++side) {
        for (int row = 0; row < size; ++row) {
          double sum = 0;
          for (int column = 0; column < size; ++column) {
            const int at = *transposed == 'N' ? row + column * stride : column + row * stride;
            sum += matrix[static_cast<std::size_t>(at)] *
                   x[static_cast<std::size_t>(column + side * side_stride)];
          }
          EXPECT_NEAR(sum, wanted[static_cast<std::size_t>(row + side * side_stride)], 1e-9)
              << size << transposed;
        }
      }
    }
  }
}

TEST(DenseLu, SaysWhereAMatrixIsSingular) {
  const int size = 3;
  std::vector<double> matrix = {1, 2, 3, 2, 4, 6, 0, 0, 1};  // the second column is twice the first
  std::vector<int> pivots(3);
  int info = 0;
  dgetrf_(&size, &size, matrix.data(), &size, pivots.data(), &info);
  EXPECT_EQ(info, 2);
}

}  // namespace
}  // namespace paceline::planner
