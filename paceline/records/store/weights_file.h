// Initial weights of a model from a file of another program or of an export.
#pragma once

#include <filesystem>
#include <span>

#include <absl/status/status.h>

#include "paceline/parameters/ps/layout.h"

namespace paceline::store {

// Copies each tensor of `layout`, by its name, to its place in `out` (layout.size() floats; padding is left
// alone). Parameters and statistics may have any floating-point type in the file; constants have the model's.
// Tensors of other names are skipped: an export also lists tied weights under their second names. Errors:
// NotFound; DataLoss as read_safetensors; InvalidArgument for a tensor that is missing, has another shape or
// type, or is not finite.
absl::Status read_weights(const std::filesystem::path& file, const ps::Layout& layout, std::span<float> out);

}  // namespace paceline::store
