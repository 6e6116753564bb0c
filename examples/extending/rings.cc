// Points in a plane: the class is the ring that a point lies in. An example of a data set: docs/extending.md.
#include <memory>
#include <utility>

#include <torch/torch.h>

#include "paceline/base/rng.h"
#include "paceline/computing/train/data_sources.h"

namespace example {

namespace train = paceline::train;

namespace {

class Rings final : public train::DataSet {
 public:
  Rings(std::int32_t size, std::uint64_t half) : size_(size), half_(half) {}

  std::int32_t size() const override { return size_; }
  std::int64_t classes() const override { return 3; }
  // An image of one row, so that image models take it.
  std::vector<std::int64_t> sample_shape() const override { return {1, 1, 2}; }
  // Two hosts with the same number have the same points.
  std::uint64_t digest() const override { return paceline::mix_seed({half_, std::uint64_t(size_)}); }

  // A point depends only on its index, so every process gets the same point at any time.
  train::Batch batch(std::span<const std::int32_t> indices, std::uint64_t) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    train::Batch batch{torch::empty({count, 1, 1, 2}), torch::empty({count}, torch::kInt64)};
    float* out = batch.inputs.data_ptr<float>();
    auto* target = batch.targets.data_ptr<std::int64_t>();
    for (const std::int32_t index : indices) {
      paceline::Rng rng(paceline::mix_seed({half_, std::uint64_t(index)}));
      const double x = 4 * rng.uniform() - 2;
      const double y = 4 * rng.uniform() - 2;
      *out++ = static_cast<float>(x);
      *out++ = static_cast<float>(y);
      const double square = x * x + y * y;
      *target++ = square < 1 ? 0 : square < 2.5 ? 1 : 2;
    }
    return batch;
  }

 private:
  std::int32_t size_;
  std::uint64_t half_;  // 0: the training set; 1: the test set
};

}  // namespace

const train::DataSource kRings = {
    .form = "rings",
    .load = [](const paceline::config::DataConfig&, const std::string&,
               std::int64_t) -> absl::StatusOr<train::DataSets> {
      return train::DataSets{std::make_unique<Rings>(10'000, 0), std::make_unique<Rings>(1'000, 1), {}};
    }};

}  // namespace example
