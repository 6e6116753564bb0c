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

// A mixture of experts, for example.
TEST(AttachedSize, AModelWithManyTensorsFits) {
  EXPECT_TRUE(check_size(attached(60'000, 0), 5 << 20).ok());
  EXPECT_TRUE(check_size(attached(20'000, 100'000), 0).ok());
}

TEST(AttachedSize, NamesThatAreTooLongTogetherAreSaid) {
  const absl::Status one = check_size(attached(300'000, 20'000), 0);
  EXPECT_EQ(one.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(one.message()),
              testing::HasSubstr("the model has 300000 tensors and 20000 frozen ones, and their names take"));
}

// A server of several hosts, or one that clips, is told of the layout twice, and of the job.
TEST(AttachedSize, AServersOrderFits) {
  const wire::WorkerAttached large = attached(220'000, 0);
  EXPECT_TRUE(check_size(large, 1 << 20).ok());
  EXPECT_LT(large.ByteSizeLong(), 16 << 20);
  EXPECT_FALSE(check_size(large, 8 << 20).ok());
}

}  // namespace
}  // namespace paceline::compute
