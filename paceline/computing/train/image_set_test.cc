#include "paceline/computing/train/image_set.h"

#include <numeric>

#include <torch/types.h>

#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

const Normalization kNormalization{{0.5f, 0.25f, 0.75f}, {0.25f, 0.5f, 0.125f}};

// Pixels with a pattern of their own, so that no two crops look alike.
Images some_images(int count) {
  Images images;
  for (int i = 0; i < count * kCifarShape.size(); ++i) {
    images.pixels.push_back(static_cast<std::uint8_t>((i * 31 + i / 7) % 256));
  }
  for (int i = 0; i < count; ++i) images.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return images;
}

ImageSet make_set(int count, bool augment) {
  return {some_images(count), kCifarShape, kNormalization, augment};
}

// The same sample, by libtorch's own operations.
torch::Tensor expected_sample(int index, const Crop& crop) {
  Images images = some_images(index + 1);
  torch::Tensor pixels = torch::from_blob(images.pixels.data(), {index + 1, 3, 32, 32}, torch::kUInt8)[index];
  const torch::Tensor mean = torch::tensor({0.5f, 0.25f, 0.75f}).view({3, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.25f, 0.5f, 0.125f}).view({3, 1, 1});
  const torch::Tensor image = (pixels.to(torch::kFloat32) / 255.0f - mean) / deviation;
  const torch::Tensor padded = torch::constant_pad_nd(image, {4, 4, 4, 4});
  const torch::Tensor cut =
      padded.slice(1, 4 + crop.down, 36 + crop.down).slice(2, 4 + crop.right, 36 + crop.right);
  return crop.mirrored ? cut.flip({2}) : cut;
}

TEST(ImageSet, NormalizesAndPicksTheSamplesAskedFor) {
  const ImageSet set = make_set(5, false);
  EXPECT_EQ(set.size(), 5);
  EXPECT_EQ(set.classes(), 10);
  EXPECT_EQ(set.sample_shape(), (std::vector<std::int64_t>{3, 32, 32}));
  const std::int32_t indices[] = {4, 0, 4};
  const Batch batch = set.batch(indices, 7);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{3, 3, 32, 32}));
  EXPECT_TRUE(torch::equal(batch.inputs[0], expected_sample(4, {})));
  EXPECT_TRUE(torch::equal(batch.inputs[1], expected_sample(0, {})));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({4, 0, 4}, torch::kInt64)));
}

TEST(ImageSet, AugmentsByCroppingThePaddedImage) {
  const ImageSet set = make_set(64, true);
  std::vector<std::int32_t> indices(64);
  std::iota(indices.begin(), indices.end(), 0);
  const Batch batch = set.batch(indices, 11);
  for (const std::int32_t index : indices) {
    EXPECT_TRUE(torch::equal(batch.inputs[index], expected_sample(index, draw_crop(11, index)))) << index;
  }
}

TEST(ImageSet, AugmentationDependsOnSeedAndIndexAlone) {
  const ImageSet set = make_set(20, true);
  const std::int32_t some[] = {3, 17, 5};
  const std::int32_t one[] = {17};
  const Batch batch = set.batch(some, 1);
  EXPECT_TRUE(torch::equal(batch.inputs[1], set.batch(one, 1).inputs[0]));
  EXPECT_FALSE(torch::equal(batch.inputs, set.batch(some, 2).inputs));
}

// Every offset from -4 to 4 and both orientations come up, about equally often.
TEST(ImageSet, CropsAreSpreadEvenly) {
  constexpr int kDraws = 9000;
  std::vector<int> down(9), right(9);
  int mirrored = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Crop crop = draw_crop(5, i);
    ++down.at(static_cast<std::size_t>(crop.down + 4));
    ++right.at(static_cast<std::size_t>(crop.right + 4));
    mirrored += crop.mirrored ? 1 : 0;
  }
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(down[i], kDraws / 9, 150) << i;
    EXPECT_NEAR(right[i], kDraws / 9, 150) << i;
  }
  EXPECT_NEAR(mirrored, kDraws / 2, 250);
}

}  // namespace
}  // namespace paceline::train
