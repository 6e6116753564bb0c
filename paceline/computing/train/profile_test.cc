// Measurements of models whose sizes are known.
#include "paceline/computing/train/profile.h"

#include <gtest/gtest.h>

#include "paceline/computing/train/model.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

TEST(Profile, SizesOfAnMlp) {
  config::ModelConfig mlp = model_named("mlp");
  mlp.width = 50;
  const auto profile = profile_model(mlp, {1, 28, 28}, 10);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->layers.size(), 6u);  // flatten, three dense, two ReLUs
  const planner::LayerProfile& first = profile->layers[1];
  EXPECT_EQ(first.name, "fc1");
  EXPECT_EQ(first.parameter_bytes, 4 * (784 * 50 + 50));
  EXPECT_EQ(first.output_bytes, 4 * 50);
  EXPECT_EQ(first.activation_bytes, 4 * 50);
  EXPECT_EQ(profile->layers.back().output_bytes, 4 * 10);
}

TEST(Profile, EveryUnitOfEveryKindOfModel) {
  for (const char* name : {"cnn", "resnet20", "vgg11", "gpt-byte"}) {
    const bool bytes = std::string(name) == "gpt-byte";
    const std::vector<std::int64_t> shape =
        bytes ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{3, 32, 32};
    const std::int64_t classes = bytes ? 256 : 10;
    const auto profile = profile_model(model_named(name), shape, classes);
    ASSERT_TRUE(profile.ok()) << profile.status();
    auto model = make_model(model_named(name), shape, classes, 1);
    ASSERT_TRUE(model.ok());
    std::int64_t parameters = 0, kept = 0;
    for (const planner::LayerProfile& layer : profile->layers) {
      EXPECT_GT(layer.work_ms, 0) << name << layer.name;
      EXPECT_GT(layer.output_bytes, 0) << name << layer.name;
      parameters += layer.parameter_bytes;
      kept += layer.activation_bytes;
    }
    std::int64_t expected = 0;
    for (const torch::Tensor& parameter : (*model)->parameters()) expected += 4 * parameter.numel();
    EXPECT_EQ(parameters, expected) << name;
    EXPECT_GT(kept, profile->layers.back().output_bytes) << name;
  }
}

// The case of `paceline plan` with a cluster file that has only the model's name.
TEST(Profile, WithoutSamplesItIsMeasuredOnItsUsualOnes) {
  config::ModelConfig text = model_named("gpt-byte");
  text.context = 16;
  EXPECT_EQ(profile_model(text, {}, 0).value().layers.back().output_bytes, 4 * 16 * 256);
  EXPECT_EQ(profile_model(model_named("mlp"), {}, 0).value().layers.back().output_bytes, 4 * 10);
  EXPECT_EQ(profile_model(model_named("mlp"), {}, 7).value().layers.back().output_bytes, 4 * 7);
}

TEST(Profile, AModelThatDoesNotFitItsSamples) {
  EXPECT_FALSE(profile_model(model_named("resnet20"), {64}, 10).ok());
  EXPECT_FALSE(profile_model(model_named("resnet2000"), {3, 32, 32}, 10).ok());
}

}  // namespace
}  // namespace paceline::train
