#include "paceline/base/status_macros.h"
#include "paceline/train/cifar_records.h"

namespace paceline::train {

absl::StatusOr<ImageSplit> read_cifar100(const std::filesystem::path& directory) {
  // A label of one of 20 kinds, then one of 100 classes: the classes are what is trained.
  const CifarFormat format{.name = "CIFAR-100", .label_bytes = 2, .classes = kCifar100Classes};
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "CIFAR-100's train.bin and test.bin"));
  ImageSplit split;
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "train.bin", format, split.train));
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "test.bin", format, split.test));
  return split;
}

}  // namespace paceline::train
