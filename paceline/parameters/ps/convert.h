// Float32 values as those of another type, for files of other programs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/parameters/ps/layout.h"

namespace paceline::ps {

// The bytes of the values in `type`, in the machine's order: rounded to the nearest, ties to even; whole
// numbers are rounded and kept within their range.
std::vector<std::byte> convert(std::span<const float> values, Dtype type);

// The way back, as many values as `out` has: false, and nothing is done, where `type` is no floating-point
// type. A double is rounded. Requires: as many bytes.
bool to_float32(std::span<const std::byte> bytes, Dtype type, std::span<float> out);

}  // namespace paceline::ps
