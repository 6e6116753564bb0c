// Halves against the compiler's own, over every one of them and what lies between; the rest by hand.
#include "paceline/parameters/ps/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

template <class Out>
Out one(float value, Dtype type) {
  const auto bytes = convert(std::span(&value, 1), type);
  Out out{};
  EXPECT_EQ(bytes.size(), sizeof(Out));
  std::memcpy(&out, bytes.data(), sizeof(Out));
  return out;
}

// Decoded by the definition of binary16.
double value_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  const double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

TEST(Convert, EveryHalfAndWhatLiesBetween) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = value_of_half(bits);
    const double high = value_of_half(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    ASSERT_EQ(one<std::uint16_t>(static_cast<float>(low), Dtype::kFloat16), bits);
    ASSERT_EQ(one<std::uint16_t>(static_cast<float>(-low), Dtype::kFloat16), bits | 0x8000);
    ASSERT_EQ(one<std::uint16_t>(middle, Dtype::kFloat16), (bits & 1) != 0 ? bits + 1 : bits) << low;
    ASSERT_EQ(one<std::uint16_t>(std::nextafterf(middle, 1e9f), Dtype::kFloat16), bits + 1) << low;
    ASSERT_EQ(one<std::uint16_t>(std::nextafterf(middle, -1e9f), Dtype::kFloat16), bits) << low;
  }
}

TEST(Convert, TheEndsOfHalves) {
  EXPECT_EQ(one<std::uint16_t>(65504.0f, Dtype::kFloat16), 0x7bff);
  EXPECT_EQ(one<std::uint16_t>(65519.0f, Dtype::kFloat16), 0x7bff);
  EXPECT_EQ(one<std::uint16_t>(65520.0f, Dtype::kFloat16), 0x7c00);
  EXPECT_EQ(one<std::uint16_t>(-INFINITY, Dtype::kFloat16), 0xfc00);
  EXPECT_EQ(one<std::uint16_t>(NAN, Dtype::kFloat16) & 0x7e00, 0x7e00);
}

TEST(Convert, Bfloat16RoundsToEven) {
  const auto of = [](std::uint32_t bits) {
    return one<std::uint16_t>(std::bit_cast<float>(bits), Dtype::kBfloat16);
  };
  EXPECT_EQ(of(0x3f800000), 0x3f80);
  EXPECT_EQ(of(0x3f808000), 0x3f80);
  EXPECT_EQ(of(0x3f808001), 0x3f81);
  EXPECT_EQ(of(0x3f818000), 0x3f82);
  EXPECT_EQ(of(0x7f7fffff), 0x7f80) << "to infinity";
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(of(0x7f800001)) << 16)));
}

TEST(Convert, WholeNumbersStayInTheirRange) {
  EXPECT_EQ(one<std::int64_t>(3.6f, Dtype::kInt64), 4);
  EXPECT_EQ(one<std::int64_t>(1e30f, Dtype::kInt64), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(one<std::int8_t>(-1000.0f, Dtype::kInt8), -128);
  EXPECT_EQ(one<std::uint8_t>(-1.0f, Dtype::kUint8), 0);
  EXPECT_EQ(one<std::int32_t>(NAN, Dtype::kInt32), 0);
  EXPECT_EQ(one<std::uint8_t>(0.1f, Dtype::kBool), 1);
  EXPECT_EQ(one<double>(0.5f, Dtype::kFloat64), 0.5);
}

// Every half and every bfloat16 is the same after the way to float32 and back.
TEST(Convert, ThereAndBackIsTheSame) {
  for (const Dtype type : {Dtype::kFloat16, Dtype::kBfloat16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto before = static_cast<std::uint16_t>(bits);
      float value = 0;
      ASSERT_TRUE(to_float32(std::as_bytes(std::span(&before, 1)), type, std::span(&value, 1)));
      if (std::isnan(value)) continue;
      ASSERT_EQ(one<std::uint16_t>(value, type), before) << value;
    }
  }
}

TEST(Convert, WhatIsNoFloatingPointTypeStaysAsItIs) {
  const std::int64_t whole = 3;
  float value = 7;
  EXPECT_FALSE(to_float32(std::as_bytes(std::span(&whole, 1)), Dtype::kInt64, std::span(&value, 1)));
  EXPECT_EQ(value, 7);
  const double real = 0.1;
  EXPECT_TRUE(to_float32(std::as_bytes(std::span(&real, 1)), Dtype::kFloat64, std::span(&value, 1)));
  EXPECT_EQ(value, 0.1f);
}

}  // namespace
}  // namespace paceline::ps
