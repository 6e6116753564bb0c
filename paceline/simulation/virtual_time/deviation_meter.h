// Measures how far the weights that gradients were computed on were from those they were committed to, and
// the bound on that (docs/theory.md): virtual time has all weights in one process. For SGD with momentum. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "paceline/parameters/ps/layout.h"
#include "paceline/records/stats/summary.h"

namespace paceline::virtual_time {

class DeviationMeter {
 public:
  DeviationMeter(const ps::Layout& layout, double momentum) : layout_(layout), momentum_(momentum) {}

  // The state of the weights when a replica pulls them.
  struct Pulled {
    double rounds = 0;  // Σ f of all commits so far
    double rate = 0;    // η of the latest commit
  };
  Pulled now() const { return {rounds_, rate_}; }

  // A gradient is about to be committed to `committed_to` at this rate, and was computed on `used`.
  void add(std::span<const float> used, std::span<const float> committed_to, std::span<const float> gradient,
           const Pulled& pulled, double rate);
  void committed(double fraction, double rate);

  // nullopt before the first commit, and while all gradients are zero.
  std::optional<report::UsedWeights> measured() const;

 private:
  const ps::Layout& layout_;
  const double momentum_;
  double rounds_ = 0;
  double rate_ = 0;
  std::int64_t count_ = 0;
  double gradient_ = 0;                    // the largest norm
  double sum_ = 0, most_ = 0;              // deviations
  double bound_sum_ = 0, bound_most_ = 0;  // bounds, in multiples of gradient_
};

}  // namespace paceline::virtual_time
