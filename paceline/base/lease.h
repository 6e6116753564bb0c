// A run of samples that one replica may train on: positions [begin, end) of one epoch's permutation.
#pragma once

#include <cstdint>

namespace paceline {

struct Lease {
  std::int32_t epoch = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Lease&, const Lease&) = default;
};

}  // namespace paceline
