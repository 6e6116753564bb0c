#include "paceline/processes/compute/attached_size.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

wire::WorkerAttached attached(int tensors, int frozen) {
  wire::WorkerAttached attached;
  for (int i = 0; i < tensors; ++i) {
    auto* const tensor = attached.mutable_layout()->add_tensors();
    tensor->set_name("model.layers.0.mlp.experts." + std::to_string(i) + ".gate_proj.lora_A.weight");
    tensor->add_shape(1);
  }
  for (int i = 0; i < frozen; ++i) {
    auto* const added = attached.add_frozen();
    added->set_name("model.layers.0.mlp.experts." + std::to_string(i) + ".gate_proj.weight");
    added->set_digest("0123456789abcdef");
  }
  return attached;
}

TEST(AttachedSize, AModelWithManyTensorsFits) {
  EXPECT_TRUE(check_size(attached(20'000, 20'000), 1).ok());
  EXPECT_TRUE(check_size(attached(20'000, 0), 4).ok());
}

TEST(AttachedSize, NamesThatAreTooLongTogetherAreSaid) {
  const absl::Status one = check_size(attached(60'000, 20'000), 1);
  EXPECT_EQ(one.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(one.message()),
              testing::HasSubstr("the model has 60000 tensors and 20000 frozen ones, and their names take"));
}

TEST(AttachedSize, AServerOfSeveralHostsIsToldTwiceAsMuch) {
  EXPECT_TRUE(check_size(attached(35'000, 0), 1).ok());
  EXPECT_FALSE(check_size(attached(35'000, 0), 2).ok());
}

}  // namespace
}  // namespace paceline::compute
