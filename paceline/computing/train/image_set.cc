#include "paceline/computing/train/image_set.h"

#include <algorithm>
#include <utility>

#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/computing/train/read_file.h"

namespace paceline::train {

Crop draw_crop(std::uint64_t augment_seed, std::int32_t index) {
  Rng rng(mix_seed({augment_seed, static_cast<std::uint64_t>(index)}));
  constexpr std::uint64_t kPlaces = 2 * Crop::kPadding + 1;
  Crop crop;
  crop.down = static_cast<int>(rng.below(kPlaces)) - Crop::kPadding;
  crop.right = static_cast<int>(rng.below(kPlaces)) - Crop::kPadding;
  crop.mirrored = rng.below(2) == 1;
  return crop;
}

ImageSet::ImageSet(Images images, ImageShape shape, const Normalization& normalization, bool augment,
                   std::int64_t classes)
    : images_(std::move(images)), shape_(shape), augment_(augment), classes_(classes) {
  PACELINE_CHECK(images_.pixels.size() == images_.labels.size() * static_cast<std::size_t>(shape.size()),
                 "{} pixels, {} labels", images_.pixels.size(), images_.labels.size());
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(shape.channels); ++channel) {
    Values& values = values_.emplace_back();
    for (std::size_t byte = 0; byte < values.size(); ++byte) {
      const float pixel = static_cast<float>(byte) / 255.0f;
      values[byte] = (pixel - normalization.mean[channel]) / normalization.deviation[channel];
    }
  }
}

std::uint64_t ImageSet::digest() const {
  return mix_seed({bytes_hash(images_.pixels), bytes_hash(images_.labels)});
}

std::vector<std::int64_t> ImageSet::sample_shape() const {
  return {shape_.channels, shape_.height, shape_.width};
}

Batch ImageSet::batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch batch{torch::empty({count, shape_.channels, shape_.height, shape_.width}, torch::kFloat32),
              torch::empty({count}, torch::kInt64)};
  float* out = batch.inputs.data_ptr<float>();
  auto* target = batch.targets.data_ptr<std::int64_t>();
  for (const std::int32_t index : indices) {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    write_sample(index, augment_ ? draw_crop(augment_seed, index) : Crop{}, out);
    out += shape_.size();
    *target++ = images_.labels[static_cast<std::size_t>(index)];
  }
  return batch;
}

void ImageSet::write_sample(std::int32_t index, const Crop& crop, float* out) const {
  const std::uint8_t* in = images_.pixels.data() + index * shape_.size();
  for (const Values& values : values_) {
    for (std::int64_t y = 0; y < shape_.height; ++y, out += shape_.width) {
      const std::int64_t row = y + crop.down;
      if (row < 0 || row >= shape_.height) {
        std::fill_n(out, shape_.width, 0.0f);
      } else {
        write_row(in + row * shape_.width, values, crop, out);
      }
    }
    in += shape_.plane();
  }
}

// One pass from bytes to floats: a table look-up a pixel, written left to right or right to left.
void ImageSet::write_row(const std::uint8_t* in, const Values& values, const Crop& crop, float* out) const {
  const std::int64_t width = shape_.width;
  const std::int64_t first = std::max(0, -crop.right);
  const std::int64_t last = width - std::max(0, crop.right);
  const std::int64_t step = crop.mirrored ? -1 : 1;
  if (crop.mirrored) out += width - 1;
  for (std::int64_t x = 0; x < first; ++x) out[x * step] = 0.0f;
  for (std::int64_t x = first; x < last; ++x) out[x * step] = values[in[x + crop.right]];
  for (std::int64_t x = last; x < width; ++x) out[x * step] = 0.0f;
}

DataSets image_sets(ImageSplit split, ImageShape shape, const Normalization& normalization, bool augment,
                    std::int64_t classes) {
  return {std::make_unique<ImageSet>(std::move(split.train), shape, normalization, augment, classes),
          std::make_unique<ImageSet>(std::move(split.test), shape, normalization, false, classes),
          {}};
}

}  // namespace paceline::train
