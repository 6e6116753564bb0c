// The staleness of committed contributions: counts by τ = v − 1 − u, exact mean and maximum. The bins widen
// as larger values come, so that a run over 100,000 replicas takes as little memory as one over four.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::report {

class StalenessHistogram {
 public:
  static constexpr std::int64_t kMaxBins = 128;

  // Requires: staleness ≥ 0.
  void add(std::int64_t staleness);

  // Bin i counts the values in [i·width, (i + 1)·width).
  std::int64_t bin_width() const { return width_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::int64_t total() const { return total_; }
  double mean() const { return total_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(total_); }
  std::int64_t max() const { return max_; }

 private:
  void widen();

  std::int64_t width_ = 1;
  std::vector<std::int64_t> counts_;
  std::int64_t total_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace paceline::report
