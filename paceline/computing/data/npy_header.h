// The header of an NPY file, NumPy's own format: a magic number, a version, and a Python dictionary that says
// what type and shape the values after it have. For npy_file.cc only. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::data {

// Little-endian.
enum class NpyType {
  kFloat32,
  kFloat64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
};

std::int64_t bytes_of(NpyType type);
bool is_integer(NpyType type);
// NumPy's name of the type: "float32".
const char* name_of(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t values = 0;      // number of values in the shape
  std::int64_t data_begin = 0;  // in bytes from the start of the file; the values begin there, in C order
};

// NumPy's own headers have a few hundred bytes at most.
inline constexpr std::size_t kMostNpyHeader = std::size_t{1} << 16;

// `start`: the first kMostNpyHeader bytes of a file, or all of a shorter one. Invariant of the result:
// data_begin is at most start.size(), no extent is negative, and `values` times the type's bytes fit 62 bits.
// Errors: DataLoss; Unimplemented for types, orders and versions that are not read here; in words that fit
// after "FILE: ", with what to do.
absl::StatusOr<NpyHeader> parse_npy_header(std::string_view start);

}  // namespace paceline::data
