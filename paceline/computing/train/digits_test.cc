// The digits that are drawn here: the same everywhere, unlike each other, and none of the training set in the
// test.
#include <numeric>
#include <set>

#include <torch/types.h>

#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

DataSets drawn_digits() {
  config::DataConfig data;
  data.source = "digits";
  return load_data(data, 0).value();
}

Batch first_of(const DataSet& set, std::int32_t count) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return set.batch(indices, 0);
}

std::uint64_t hash_of(const torch::Tensor& tensor) {
  return bytes_hash({static_cast<const std::uint8_t*>(tensor.data_ptr()), tensor.nbytes()});
}

TEST(Digits, HaveTheShapeOfMnist) {
  const DataSets sets = drawn_digits();
  EXPECT_EQ(sets.train->size(), 60'000);
  EXPECT_EQ(sets.test->size(), 10'000);
  EXPECT_EQ(sets.train->sample_shape(), (std::vector<std::int64_t>{1, 28, 28}));
  const Batch batch = first_of(*sets.train, 2000);
  EXPECT_NEAR(batch.inputs.mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(batch.inputs.std().item<double>(), 1, 0.1);
  for (int digit = 0; digit < 10; ++digit)
    EXPECT_NEAR(static_cast<double>(batch.targets.eq(digit).sum().item<int>()), 200, 60) << digit;
}

TEST(Digits, AreAllDifferentAndDoNotDependOnWhatElseIsAskedFor) {
  const DataSets sets = drawn_digits();
  std::set<std::uint64_t> seen;
  const Batch train = first_of(*sets.train, 500), test = first_of(*sets.test, 500);
  for (std::int64_t i = 0; i < 500; ++i) {
    seen.insert(hash_of(train.inputs[i].contiguous()));
    seen.insert(hash_of(test.inputs[i].contiguous()));
  }
  EXPECT_EQ(seen.size(), 1000u);
  const std::int32_t some[] = {499, 7};
  const Batch again = sets.train->batch(some, 1);
  EXPECT_TRUE(torch::equal(again.inputs[0], train.inputs[499]));
  EXPECT_TRUE(torch::equal(again.inputs[1], train.inputs[7]));
}

// No set that a model learns at once, and none that cannot be learnt: between the two averages of each class.
TEST(Digits, AnAverageOfEachClassIsNotEnoughToTellThemApart) {
  const DataSets sets = drawn_digits();
  const Batch train = first_of(*sets.train, 3000), test = first_of(*sets.test, 1000);
  std::vector<torch::Tensor> means;
  for (int digit = 0; digit < 10; ++digit)
    means.push_back(train.inputs.index({train.targets.eq(digit)}).mean(0).flatten());
  const torch::Tensor distances = torch::cdist(test.inputs.flatten(1), torch::stack(means));
  const double right = distances.argmin(1).eq(test.targets).to(torch::kFloat64).mean().item<double>();
  EXPECT_GT(right, 0.3);
  EXPECT_LT(right, 0.85);
}

}  // namespace
}  // namespace paceline::train
