#include "paceline/parameters/ps/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace paceline::ps {

namespace {

// The nearest number of IEEE's binary16.
std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00u;
  if (rest >= 0x477ff000u) return sign | 0x7c00u;  // rounds to more than 65504
  if (rest < 0x33000001u) return sign;             // rounds to 0
  const auto exponent = static_cast<int>(rest >> 23) - 127;
  const std::uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
  // A subnormal has fewer bits of it.
  const int drop = exponent < -14 ? 13 + (-14 - exponent) : 13;
  const std::uint32_t kept = mantissa >> drop;
  const std::uint32_t lost = mantissa & ((1u << drop) - 1);
  const std::uint32_t middle = 1u << (drop - 1);
  const std::uint32_t up = lost > middle || (lost == middle && (kept & 1u) != 0) ? 1 : 0;
  // A carry of the rounding goes into the exponent by itself.
  const std::uint32_t base = exponent < -14 ? 0 : static_cast<std::uint32_t>(exponent + 14) << 10;
  return static_cast<std::uint16_t>(sign + base + kept + up);
}

std::uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <class Whole>
Whole whole_of(float value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (rounded <= static_cast<double>(std::numeric_limits<Whole>::min()))
    return std::numeric_limits<Whole>::min();
  if (rounded >= static_cast<double>(std::numeric_limits<Whole>::max()))
    return std::numeric_limits<Whole>::max();
  return static_cast<Whole>(rounded);
}

template <class One>
std::vector<std::byte> each(std::span<const float> values, One one) {
  using Out = decltype(one(0.0f));
  std::vector<std::byte> bytes(values.size() * sizeof(Out));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Out out = one(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Out), &out, sizeof(Out));
  }
  return bytes;
}

// The value of a number of IEEE's binary16: exact.
float float_of_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
  return std::copysign(value, (half & 0x8000) != 0 ? -1.0f : 1.0f);
}

float float_of_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

template <class In, class One>
void each_of(std::span<const std::byte> bytes, std::span<float> out, One one) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    In in;
    std::memcpy(&in, bytes.data() + i * sizeof(In), sizeof(In));
    out[i] = one(in);
  }
}

}  // namespace

bool to_float32(std::span<const std::byte> bytes, Dtype type, std::span<float> out) {
  switch (type) {
    case Dtype::kFloat32:
      each_of<float>(bytes, out, [](float value) { return value; });
      return true;
    case Dtype::kFloat64:
      each_of<double>(bytes, out, [](double value) { return static_cast<float>(value); });
      return true;
    case Dtype::kFloat16:
      each_of<std::uint16_t>(bytes, out, float_of_half);
      return true;
    case Dtype::kBfloat16:
      each_of<std::uint16_t>(bytes, out, float_of_bfloat16);
      return true;
    default:
      return false;
  }
}

std::vector<std::byte> convert(std::span<const float> values, Dtype type) {
  switch (type) {
    case Dtype::kFloat32:
      return each(values, [](float value) { return value; });
    case Dtype::kFloat64:
      return each(values, [](float value) { return static_cast<double>(value); });
    case Dtype::kFloat16:
      return each(values, half_of);
    case Dtype::kBfloat16:
      return each(values, bfloat16_of);
    case Dtype::kInt64:
      return each(values, whole_of<std::int64_t>);
    case Dtype::kInt32:
      return each(values, whole_of<std::int32_t>);
    case Dtype::kInt16:
      return each(values, whole_of<std::int16_t>);
    case Dtype::kInt8:
      return each(values, whole_of<std::int8_t>);
    case Dtype::kUint8:
      return each(values, whole_of<std::uint8_t>);
    case Dtype::kBool:
      return each(values, [](float value) { return static_cast<std::uint8_t>(value != 0); });
  }
  return {};
}

}  // namespace paceline::ps
