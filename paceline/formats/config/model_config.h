// The [model] and [data] sections of a job. Plain data, so that folders without libtorch can read it.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::config {

struct ModelConfig {
  // One of model_names.h.
  std::string name = "mlp";
  // mlp: width of its two hidden layers. gpt-byte: width of the residual stream.
  std::int64_t width = 128;
  // gpt-byte only.
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t context = 64;  // bytes a sample spans
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct DataConfig {
  // One of the forms of train/data_sources.h. A job that names gpt-byte and no source gets "headers".
  std::string source = "digits";
  bool augment = false;            // CIFAR: pad 4, crop, flip
  std::int64_t train_samples = 0;  // use only this many first samples; 0: all
  std::int64_t test_samples = 0;   // the same
  bool test_rest = false;  // after the test set, tests also on the samples that train_samples leaves out
  std::int64_t max_bytes = 4 << 20;  // text: read no more than this
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

}  // namespace paceline::config
