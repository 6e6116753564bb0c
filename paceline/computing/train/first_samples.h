// The first few samples of a data set, as a data set: what data.train_samples and data.test_samples ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/computing/train/dataset.h"

namespace paceline::train {

class FirstSamples : public DataSet {
 public:
  FirstSamples(std::shared_ptr<const DataSet> all, std::int32_t count) : all_(std::move(all)), size_(count) {
    PACELINE_CHECK(0 < count && count <= all_->size(), "{} of {} samples", count, all_->size());
  }

  std::int32_t size() const override { return size_; }
  std::int64_t classes() const override { return all_->classes(); }
  std::vector<std::int64_t> sample_shape() const override { return all_->sample_shape(); }
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const override {
    for (std::int32_t index : indices) PACELINE_CHECK(index < size_, "sample {} of {}", index, size_);
    return all_->batch(indices, augment_seed);
  }
  // The digest of the whole set: the samples that are left out are the same data, too.
  std::uint64_t digest() const override { return all_->digest(); }
  absl::Status check_unchanged() const override { return all_->check_unchanged(); }

 private:
  std::shared_ptr<const DataSet> all_;
  std::int32_t size_;
};

}  // namespace paceline::train
