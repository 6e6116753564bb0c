#include <string>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/train/cifar_records.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

bool is_train_batch(const fs::path& path) {
  return path.filename().string().starts_with("data_batch_") && path.extension() == ".bin";
}

}  // namespace

absl::StatusOr<ImageSplit> read_cifar10(const fs::path& directory) {
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "CIFAR-10's data_batch_1.bin and test_batch.bin"));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, list_files(directory, Depth::kTop));
  const CifarFormat format{.name = "CIFAR-10", .label_bytes = 1, .classes = kImageClasses};
  ImageSplit split;
  for (const fs::path& file : files) {
    if (is_train_batch(file)) PACELINE_RETURN_IF_ERROR(append_cifar_records(file, format, split.train));
  }
  if (split.train.labels.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no data_batch_*.bin in it; unpack CIFAR-10's binary version there (its folder is "
                    "called cifar-10-batches-bin)",
                    directory.string()));
  }
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "test_batch.bin", format, split.test));
  return split;
}

}  // namespace paceline::train
