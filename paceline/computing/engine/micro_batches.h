// Cuts a batch into micro-batches of this many samples each; the last one has the rest. If that is one sample, on which
// batch norm cannot compute, it has one more, and the one before it one less.
#pragma once

#include <algorithm>
#include <cstdint>

#include "paceline/base/check.h"

namespace paceline::engine {

inline constexpr std::int64_t kWholeBatch = INT64_MAX;

class MicroBatches {
 public:
  MicroBatches(std::int64_t samples, std::int64_t most) : samples_(samples), most_(std::min(samples, most)) {
    PACELINE_CHECK(samples >= 1 && most >= 1, "micro-batches of {} out of {} samples", most, samples);
  }

  std::int64_t count() const { return (samples_ + most_ - 1) / most_; }
  std::int64_t begin(std::int64_t micro) const {
    return micro * most_ - (micro + 1 == count() && leaves_one() ? 1 : 0);
  }
  std::int64_t end(std::int64_t micro) const { return micro + 1 == count() ? samples_ : begin(micro + 1); }
  std::int64_t size(std::int64_t micro) const { return end(micro) - begin(micro); }
  // The micro-batch's share of the batch's samples.
  double share(std::int64_t micro) const {
    return static_cast<double>(size(micro)) / static_cast<double>(samples_);
  }

 private:
  bool leaves_one() const { return samples_ > most_ && most_ > 2 && samples_ % most_ == 1; }

  std::int64_t samples_;
  std::int64_t most_;
};

}  // namespace paceline::engine
