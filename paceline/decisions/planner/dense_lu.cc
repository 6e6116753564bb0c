// The two routines of LAPACK that Clp's CoinUtils calls, for dense remainders of a factorization. LAPACK
// itself brings OpenBLAS and Fortran's runtime, 47 MB, into every program. The planner's programs have a few
// dozen rows, for which plain loops are as fast.
//
// Column-major, pivots count from 1, as LAPACK has it (https://netlib.org/lapack/explore-html, dgetrf,
// dgetrs). Hidden: libtorch finds its own LAPACK.
#include <cmath>
#include <cstddef>
#include <utility>

#define PACELINE_HIDDEN __attribute__((visibility("hidden")))

// P · A = L · U of the m × n matrix `a`, whose columns are `lda` apart: L below the diagonal, where it has
// ones, U above. `info`: k > 0 where U(k, k) is zero.
extern "C" PACELINE_HIDDEN void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots,
                                        int* info) {
  const std::ptrdiff_t rows = *m, columns = *n, stride = *lda;
  const auto at = [=](std::ptrdiff_t row, std::ptrdiff_t column) -> double& {
    return a[row + column * stride];
  };
  *info = 0;
  for (std::ptrdiff_t k = 0; k < rows && k < columns; ++k) {
    std::ptrdiff_t best = k;
    for (std::ptrdiff_t row = k + 1; row < rows; ++row) {
      if (std::abs(at(row, k)) > std::abs(at(best, k))) best = row;
    }
    pivots[k] = static_cast<int>(best + 1);
    if (at(best, k) == 0) {
      if (*info == 0) *info = static_cast<int>(k + 1);
      continue;
    }
    if (best != k) {
      for (std::ptrdiff_t column = 0; column < columns; ++column) std::swap(at(k, column), at(best, column));
    }
    for (std::ptrdiff_t row = k + 1; row < rows; ++row) at(row, k) /= at(k, k);
    for (std::ptrdiff_t column = k + 1; column < columns; ++column) {
      for (std::ptrdiff_t row = k + 1; row < rows; ++row) at(row, column) -= at(row, k) * at(k, column);
    }
  }
}

// A · X = B or, where `transposed` begins with T or C, Aᵀ · X = B, with what dgetrf_ left; X in place of B.
extern "C" PACELINE_HIDDEN void dgetrs_(const char* transposed, const int* n, const int* right_sides,
                                        const double* a, const int* lda, const int* pivots, double* b,
                                        const int* ldb, int* info) {
  const std::ptrdiff_t size = *n;
  const auto at = [=, stride = std::ptrdiff_t{*lda}](std::ptrdiff_t row, std::ptrdiff_t column) {
    return a[row + column * stride];
  };
  const bool forward = *transposed == 'N' || *transposed == 'n';
  *info = 0;
  for (std::ptrdiff_t side = 0; side < *right_sides; ++side) {
    double* x = b + side * *ldb;
    if (forward) {
      for (std::ptrdiff_t k = 0; k < size; ++k) std::swap(x[k], x[pivots[k] - 1]);
      for (std::ptrdiff_t k = 0; k < size; ++k) {
        for (std::ptrdiff_t row = k + 1; row < size; ++row) x[row] -= at(row, k) * x[k];
      }
      for (std::ptrdiff_t k = size - 1; k >= 0; --k) {
        x[k] /= at(k, k);
        for (std::ptrdiff_t row = 0; row < k; ++row) x[row] -= at(row, k) * x[k];
      }
    } else {
      for (std::ptrdiff_t k = 0; k < size; ++k) {
        for (std::ptrdiff_t row = 0; row < k; ++row) x[k] -= at(row, k) * x[row];
        x[k] /= at(k, k);
      }
      for (std::ptrdiff_t k = size - 1; k >= 0; --k) {
        for (std::ptrdiff_t row = k + 1; row < size; ++row) x[k] -= at(row, k) * x[row];
      }
      for (std::ptrdiff_t k = size - 1; k >= 0; --k) std::swap(x[k], x[pivots[k] - 1]);
    }
  }
}
