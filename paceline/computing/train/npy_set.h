// Samples and labels of the user's own, from NPY files. Samples stay in the files, which the processes of a
// host share. Made by load_data. Never changes, so any thread may call it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "paceline/computing/data/npy_file.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/images.h"

namespace paceline::train {

// x.npy, y.npy, x_test.npy and y_test.npy of a directory. Samples of one or two dimensions get 1s before
// theirs, so that every image model takes them. The classes go from 0 to the largest label of y.npy.
absl::StatusOr<DataSets> read_npy(const std::filesystem::path& directory);

class NpySet : public DataSet {
 public:
  // Requires: as many labels as samples, each below `classes`; float32, float64 or uint8 samples, whose shape
  // is `sample`.
  NpySet(data::NpyFile samples, ImageShape sample, std::vector<std::int32_t> labels, std::int64_t classes);

  std::int32_t size() const override { return static_cast<std::int32_t>(labels_.size()); }
  std::int64_t classes() const override { return classes_; }
  std::vector<std::int64_t> sample_shape() const override;
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const override;
  // The digest of a large file covers parts all over it.
  std::uint64_t digest() const override;
  absl::Status check_unchanged() const override { return samples_.check_unchanged(); }

 private:
  data::NpyFile samples_;
  ImageShape sample_;
  std::vector<std::int32_t> labels_;
  std::int64_t classes_;
};

}  // namespace paceline::train
