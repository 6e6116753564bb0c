// Data sets, read from the standard files or the user's own. Any thread may call batch() at once: a data set
// never changes after it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <torch/types.h>

#include "paceline/formats/config/model_config.h"

namespace paceline::train {

// inputs: [n, …] float32 for images, int64 for bytes; targets: int64 [n] or, for bytes, [n, context].
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
};

class DataSet {
 public:
  virtual ~DataSet() = default;
  virtual std::int32_t size() const = 0;  // samples
  virtual std::int64_t classes() const = 0;
  // One sample's shape, without the batch: {3, 32, 32}, {1, 28, 28} or {context}.
  virtual std::vector<std::int64_t> sample_shape() const = 0;
  // The samples at `indices`, each in [0, size()). Augmentation, if the set has any, is a function of
  // (augment_seed, index) alone: every process that computes a sample sees the same pixels.
  virtual Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const = 0;
  // A short name of the bytes that the samples are made of, the same on every machine. Against chance, not
  // against malice.
  virtual std::uint64_t digest() const = 0;
  // Call this before batch(). Errors: a process wrote to a file from which samples are still read.
  virtual absl::Status check_unchanged() const { return absl::OkStatus(); }
};

struct DataSets {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> test;  // never augmented
  std::string note{};             // a line about the samples for people; may be empty
};

// Reads what `data.source` names. Errors name the file, what is wrong with it, and the fix. `context` is the
// number of bytes one text sample spans; images ignore it. CIFAR-10, MNIST and NPY files come with their test
// sets (MNIST's 10,000 test images alone are split four to one); of a text, the last tenth tests.
absl::StatusOr<DataSets> load_data(const config::DataConfig& data, std::int64_t context);

}  // namespace paceline::train
