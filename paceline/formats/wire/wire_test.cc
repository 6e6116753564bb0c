// Layouts and leases on the wire: as they were sent, or refused.
#include "paceline/formats/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using ::testing::HasSubstr;

ps::Layout sample() {
  ps::Layout layout;
  layout.add("weight", ps::TensorKind::kParameter, {3, 5});
  layout.add("half", ps::TensorKind::kParameter, {7}, ps::Dtype::kBfloat16);
  layout.add("mean", ps::TensorKind::kStatistic, {4}, ps::Dtype::kFloat64);
  layout.add("ids", ps::TensorKind::kConstant, {31}, ps::Dtype::kInt64);
  layout.add("mask", ps::TensorKind::kConstant, {3, 3}, ps::Dtype::kBool);
  return layout;
}

TEST(WireLayout, ComesAsItWasSent) {
  const auto whole = from_wire(to_wire(sample()));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(*whole, sample());
  for (const ps::Layout& part : sample().split_evenly(4)) EXPECT_EQ(*from_wire(to_wire(part)), part);
}

TEST(WireLayout, OfFloatsSaysNothingOfTypes) {
  ps::Layout layout;
  layout.add("weight", ps::TensorKind::kParameter, {3, 5});
  layout.add("mean", ps::TensorKind::kStatistic, {4});
  const Layout message = to_wire(layout);
  for (const Tensor& tensor : message.tensors()) {
    EXPECT_TRUE(tensor.dtype().empty());
    EXPECT_FALSE(tensor.constant());
  }
}

TEST(WireLease, ComesAsItWasSentOrIsRefused) {
  for (const paceline::Lease& lease :
       {paceline::Lease{3, 0, 5}, paceline::Lease{0, 32, 62, 0, 1}, paceline::Lease{0, 32, 62, 29, 31}})
    EXPECT_EQ(*from_wire(to_wire(lease)), lease);
  for (const paceline::Lease& wrong :
       {paceline::Lease{-1, 0, 5}, paceline::Lease{0, -1, 5}, paceline::Lease{0, 5, 5},
        paceline::Lease{0, 6, 5}, paceline::Lease{0, 32, 62, 31, 32}, paceline::Lease{0, 32, 62, 40, 41},
        paceline::Lease{0, 32, 62, -1, 3}, paceline::Lease{0, 32, 62, 5, 5},
        paceline::Lease{0, 32, 62, 7, 5}})
    EXPECT_TRUE(absl::IsInvalidArgument(from_wire(to_wire(wrong)).status())) << in_words(wrong);
}

TEST(WireLayout, WhatMakesNoSenseIsRefused) {
  const auto refused = [](auto change) {
    Layout message = to_wire(sample());
    change(*message.mutable_tensors(0));
    const absl::Status status = from_wire(message).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](Tensor& tensor) { tensor.set_dtype("complex64"); }), HasSubstr("unknown dtype"));
  EXPECT_THAT(refused([](Tensor& tensor) {
                tensor.set_statistic(true);
                tensor.set_constant(true);
              }),
              HasSubstr("of two kinds"));
  EXPECT_THAT(refused([](Tensor& tensor) { tensor.add_shape(-1); }), HasSubstr("impossible shape"));
}

}  // namespace
}  // namespace paceline::wire
