// Labelled images as samples: bytes in memory, normalised floats out, with CIFAR's usual augmentation when
// asked for. Made by load_data. Never changes, so any thread may call it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/images.h"

namespace paceline::train {

// Mean and deviation of each channel, for pixels scaled to 0..1. They are the standard constants of each data
// set, and the test set has the same.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

// How a sample is cut out of its image, which is padded with kPadding zeros on every side. The zeros are put
// in after normalisation (He et al. 2016), so they are the mean colour, not black.
struct Crop {
  static constexpr int kPadding = 4;
  int down = 0;   // -kPadding..kPadding: row y of the sample is row y + down of the image
  int right = 0;  // the same for columns
  bool mirrored = false;
};

// A function of its arguments alone.
Crop draw_crop(std::uint64_t augment_seed, std::int32_t index);

class ImageSet : public DataSet {
 public:
  // Requires: every label is below `classes`.
  ImageSet(Images images, ImageShape shape, const Normalization& normalization, bool augment,
           std::int64_t classes = kImageClasses);

  std::int32_t size() const override { return static_cast<std::int32_t>(images_.labels.size()); }
  std::int64_t classes() const override { return classes_; }
  std::vector<std::int64_t> sample_shape() const override;
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const override;
  std::uint64_t digest() const override;

 private:
  using Values = std::array<float, 256>;  // the value of each byte

  void write_sample(std::int32_t index, const Crop& crop, float* out) const;
  void write_row(const std::uint8_t* in, const Values& values, const Crop& crop, float* out) const;

  Images images_;
  ImageShape shape_;
  std::vector<Values> values_;  // one for each channel
  bool augment_;
  std::int64_t classes_;
};

// Both halves of a split, normalised alike. Only the training half is augmented.
DataSets image_sets(ImageSplit split, ImageShape shape, const Normalization& normalization, bool augment,
                    std::int64_t classes);

}  // namespace paceline::train
