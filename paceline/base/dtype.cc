#include "paceline/base/dtype.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace paceline {

namespace {

struct Entry {
  Dtype type;
  std::int64_t bytes;
  std::string_view name;
  std::string_view in_safetensors;
};

// In the order of the enumeration.
constexpr std::array<Entry, 10> kTypes{{{Dtype::kFloat32, 4, "float32", "F32"},
                                        {Dtype::kFloat64, 8, "float64", "F64"},
                                        {Dtype::kFloat16, 2, "float16", "F16"},
                                        {Dtype::kBfloat16, 2, "bfloat16", "BF16"},
                                        {Dtype::kInt64, 8, "int64", "I64"},
                                        {Dtype::kInt32, 4, "int32", "I32"},
                                        {Dtype::kInt16, 2, "int16", "I16"},
                                        {Dtype::kInt8, 1, "int8", "I8"},
                                        {Dtype::kUint8, 1, "uint8", "U8"},
                                        {Dtype::kBool, 1, "bool", "BOOL"}}};

const Entry& entry(Dtype type) { return kTypes[static_cast<std::size_t>(type)]; }

std::optional<Dtype> type_with(std::string_view Entry::*name, std::string_view text) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Entry& one) { return one.*name == text; });
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

}  // namespace

std::int64_t bytes_of(Dtype type) { return entry(type).bytes; }

std::string_view name_of(Dtype type) { return entry(type).name; }
std::optional<Dtype> dtype_named(std::string_view name) { return type_with(&Entry::name, name); }

std::string_view safetensors_name(Dtype type) { return entry(type).in_safetensors; }
std::optional<Dtype> dtype_of_safetensors(std::string_view name) {
  return type_with(&Entry::in_safetensors, name);
}

}  // namespace paceline
