// The header of a safetensors file: JSON with the place of each tensor in the data after it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/parameters/ps/layout.h"

namespace paceline::store {

struct TensorEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // in bytes from the start of the data
  std::int64_t end = 0;
  ps::Dtype dtype = ps::Dtype::kFloat32;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// The same text for the same tensors and metadata, in any order. Errors: InvalidArgument if a name or the
// metadata is not UTF-8.
absl::StatusOr<std::string> to_text(const SafetensorsHeader& header);

// Invariant of the result: the tensors ascend, each has the length of its shape and type, and together they
// fill the bytes from 0 to the end of the last one. Errors: DataLoss; Unimplemented for a type that
// base/dtype.h does not have; in words that fit after "FILE: ".
absl::StatusOr<SafetensorsHeader> parse_header(const std::string& text);

}  // namespace paceline::store
