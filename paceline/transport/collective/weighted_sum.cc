#include "paceline/transport/collective/weighted_sum.h"

#include "paceline/base/vectorized.h"

namespace paceline::collective {

PACELINE_VECTORIZED void product(float* __restrict sum, const float* __restrict values, float weight,
                                 std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weight * values[i];
}

PACELINE_VECTORIZED void accumulate(float* __restrict sum, const float* __restrict values, float weight,
                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * values[i];
}

}  // namespace paceline::collective
