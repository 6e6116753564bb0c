// The digits that Paceline draws (data/digits.h), as samples. A sample is drawn when it is asked for.
#include <memory>

#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/computing/data/digits.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/images.h"

namespace paceline::train {

namespace {

using data::DigitsHalf;

class DigitSet final : public DataSet {
 public:
  DigitSet(std::int32_t size, DigitsHalf half) : size_(size), half_(half) {}

  std::int32_t size() const override { return size_; }
  std::int64_t classes() const override { return kImageClasses; }
  std::vector<std::int64_t> sample_shape() const override { return {1, data::kDigitSide, data::kDigitSide}; }
  std::uint64_t digest() const override {
    return mix_seed(
        {data::kDigitsDrawing, static_cast<std::uint64_t>(half_), static_cast<std::uint64_t>(size_)});
  }

  Batch batch(std::span<const std::int32_t> indices, std::uint64_t) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch{torch::empty({count, 1, data::kDigitSide, data::kDigitSide}),
                torch::empty({count}, torch::kInt64)};
    float* out = batch.inputs.data_ptr<float>();
    auto* target = batch.targets.data_ptr<std::int64_t>();
    for (const std::int32_t index : indices) {
      PACELINE_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
      const data::DrawnDigit drawn = data::draw_digit(half_, index);
      for (const std::uint8_t pixel : drawn.pixels)
        *out++ = (static_cast<float>(pixel) / 255.0f - kDigitsMean) / kDigitsDeviation;
      *target++ = drawn.label;
    }
    return batch;
  }

 private:
  static constexpr float kDigitsMean = 0.1471f;
  static constexpr float kDigitsDeviation = 0.2400f;

  std::int32_t size_;
  DigitsHalf half_;
};

}  // namespace

const DataSource DataSources::digits = {
    .form = "digits",
    .load = [](const config::DataConfig&, const std::string&, std::int64_t) -> absl::StatusOr<DataSets> {
      return DataSets{std::make_unique<DigitSet>(data::kDigitsToTrain, DigitsHalf::kTrain),
                      std::make_unique<DigitSet>(data::kDigitsToTest, DigitsHalf::kTest),
                      {}};
    }};

}  // namespace paceline::train
