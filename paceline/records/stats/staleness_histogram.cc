#include "paceline/records/stats/staleness_histogram.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::report {

void StalenessHistogram::add(std::int64_t staleness) {
  PACELINE_CHECK(staleness >= 0, "a staleness of {}", staleness);
  while (staleness / width_ >= kMaxBins) widen();
  const auto bin = static_cast<std::size_t>(staleness / width_);
  if (bin >= counts_.size()) counts_.resize(bin + 1);
  ++counts_[bin];
  ++total_;
  sum_ += staleness;
  max_ = std::max(max_, staleness);
}

void StalenessHistogram::widen() {
  width_ *= 2;
  if (counts_.size() % 2 == 1) counts_.push_back(0);
  for (std::size_t i = 0; i < counts_.size(); i += 2) counts_[i / 2] = counts_[i] + counts_[i + 1];
  counts_.resize(counts_.size() / 2);
}

}  // namespace paceline::report
