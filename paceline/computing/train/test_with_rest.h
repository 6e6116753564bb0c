// A test set, followed by the samples that data.train_samples leaves out of the training set. data.test_rest
// asks for this. No sample of it is trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/computing/train/dataset.h"

namespace paceline::train {

class TestWithRest : public DataSet {
 public:
  // `trained`: how many of `train`'s first samples are trained on; fewer than all of them.
  TestWithRest(std::unique_ptr<DataSet> test, std::shared_ptr<const DataSet> train, std::int32_t trained)
      : test_(std::move(test)), train_(std::move(train)), trained_(trained) {
    PACELINE_CHECK(0 < trained && trained < train_->size(), "{} of {} samples are trained on", trained,
                   train_->size());
  }

  std::int32_t size() const override { return test_->size() + train_->size() - trained_; }
  std::int64_t classes() const override { return test_->classes(); }
  std::vector<std::int64_t> sample_shape() const override { return test_->sample_shape(); }
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const override {
    std::vector<std::int32_t> of_test, of_train;
    // the place of each index in the two parts, one after the other
    std::vector<std::int64_t> places(indices.size());
    for (const std::int32_t index : indices) (index < test_->size() ? of_test : of_train).push_back(index);
    std::int64_t next_test = 0, next_train = static_cast<std::int64_t>(of_test.size());
    for (std::size_t i = 0; i < indices.size(); ++i)
      places[i] = indices[i] < test_->size() ? next_test++ : next_train++;
    for (std::int32_t& index : of_train) index += trained_ - test_->size();
    if (of_train.empty()) return test_->batch(of_test, augment_seed);
    if (of_test.empty()) return train_->batch(of_train, augment_seed);
    const Batch first = test_->batch(of_test, augment_seed);
    const Batch second = train_->batch(of_train, augment_seed);
    const torch::Tensor order = torch::tensor(places);
    return {torch::cat({first.inputs, second.inputs}).index_select(0, order),
            torch::cat({first.targets, second.targets}).index_select(0, order)};
  }
  // The training set's own digest covers the rest.
  std::uint64_t digest() const override { return test_->digest(); }
  absl::Status check_unchanged() const override {
    const absl::Status test = test_->check_unchanged();
    return test.ok() ? train_->check_unchanged() : test;
  }

 private:
  std::unique_ptr<DataSet> test_;
  std::shared_ptr<const DataSet> train_;
  std::int32_t trained_;
};

}  // namespace paceline::train
