// The types that a tensor may have in the program that computes with it. In the flat memory a parameter or a
// statistic is always float32; a constant lies there with the bytes of its own type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline {

enum class Dtype { kFloat32, kFloat64, kFloat16, kBfloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };

// The size of one element.
std::int64_t bytes_of(Dtype type);

// The name in programs and our messages: "float32".
std::string_view name_of(Dtype type);
std::optional<Dtype> dtype_named(std::string_view name);

// The name in safetensors files: "F32".
std::string_view safetensors_name(Dtype type);
std::optional<Dtype> dtype_of_safetensors(std::string_view name);

}  // namespace paceline
