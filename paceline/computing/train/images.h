// Labelled images as the standard files hold them, and the readers of those files. Plain bytes, no libtorch:
// image_set.h makes samples of them. Every label a reader lets through is below its set's number of classes.
#pragma once

#include <cstdint>
#include <filesystem>

#include <absl/status/statusor.h>

#include "paceline/computing/train/read_file.h"

namespace paceline::train {

inline constexpr std::int64_t kImageClasses = 10;  // CIFAR-10 and MNIST alike
inline constexpr std::int64_t kCifar100Classes = 100;

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr std::int64_t plane() const { return height * width; }
  constexpr std::int64_t size() const { return channels * plane(); }
};

inline constexpr ImageShape kCifarShape{3, 32, 32};
inline constexpr ImageShape kMnistShape{1, 28, 28};

struct Images {
  Bytes pixels;  // one image after the other, each as planes: [n, channels, height, width]
  Bytes labels;  // [n]
};

struct ImageSplit {
  Images train;
  Images test;
  bool both_of_test_files = false;  // there is no training set here
};

// CIFAR-10's binary version (Krizhevsky 2009): records of one label byte and 3,072 pixel bytes. Trains on
// every data_batch_*.bin in the directory, in the order of their names; tests on test_batch.bin.
absl::StatusOr<ImageSplit> read_cifar10(const std::filesystem::path& directory);

// CIFAR-100's binary version: records of two label bytes (the second is the class) and 3,072 pixel
// bytes. Trains on train.bin, tests on test.bin.
absl::StatusOr<ImageSplit> read_cifar100(const std::filesystem::path& directory);

// MNIST's IDX files (LeCun, Cortes, Burges), plain or .gz. If there are only the 10,000 images called t10k,
// the first four fifths of them train and the rest test.
absl::StatusOr<ImageSplit> read_mnist(const std::filesystem::path& directory);

}  // namespace paceline::train
