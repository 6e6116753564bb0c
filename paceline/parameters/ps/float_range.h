// A stretch of a layout's flat memory.
#pragma once

#include <cstdint>

namespace paceline::ps {

// Floats [begin, end).
struct FloatRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const FloatRange&, const FloatRange&) = default;
};

}  // namespace paceline::ps
