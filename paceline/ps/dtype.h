// The types that a tensor may have in the program that computes with it. In the flat memory a parameter or a
// statistic is always float32; a constant lies there with the bytes of its own type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::ps {

enum class Dtype { kFloat32, kFloat64, kFloat16, kBfloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };

// Of one element.
std::int64_t bytes_of(Dtype type);

// As programs and our messages call it: "float32".
std::string_view name_of(Dtype type);
std::optional<Dtype> dtype_named(std::string_view name);

// As safetensors files call it: "F32".
std::string_view safetensors_name(Dtype type);
std::optional<Dtype> dtype_of_safetensors(std::string_view name);

}  // namespace paceline::ps
