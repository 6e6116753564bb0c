// A run of samples that one replica may train on: positions [begin, end) of one epoch's permutation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline {

struct Lease {
  std::int32_t epoch = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Lease&, const Lease&) = default;
};

// The number of samples of all epochs, as long as nobody knows it: more than any run trains on.
constexpr std::int64_t kUnknownTotal = std::int64_t{1} << 60;

// The part of a lease that exists if there are `total` samples in all, of epochs of `dataset_size` samples. It may be
// empty.
inline Lease before(std::int64_t total, const Lease& lease, std::int64_t dataset_size) {
  return {lease.epoch, lease.begin, std::clamp(total - lease.epoch * dataset_size, lease.begin, lease.end)};
}

}  // namespace paceline
