// Float32 values as those of another type, for a file that other programs read.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/ps/dtype.h"

namespace paceline::ps {

// The bytes of the values in `type`, in the machine's order: rounded to the nearest, ties to even; whole numbers are
// rounded and kept within their range.
std::vector<std::byte> convert(std::span<const float> values, Dtype type);

}  // namespace paceline::ps
