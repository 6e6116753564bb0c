#include <string>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/cifar_records.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/image_set.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

bool is_train_batch(const fs::path& path) {
  return path.filename().string().starts_with("data_batch_") && path.extension() == ".bin";
}

}  // namespace

absl::StatusOr<ImageSplit> read_cifar10(const fs::path& directory) {
  PACELINE_RETURN_IF_ERROR(
      require_directory(directory, "CIFAR-10's data_batch_1.bin and test_batch.bin", "cifar10"));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, list_files(directory, Depth::kTop));
  const CifarFormat format{.name = "CIFAR-10", .label_bytes = 1, .classes = kImageClasses};
  ImageSplit split;
  for (const fs::path& file : files) {
    if (is_train_batch(file)) PACELINE_RETURN_IF_ERROR(append_cifar_records(file, format, split.train));
  }
  if (split.train.labels.empty()) {
    return absl::NotFoundError(
        fmt::format("{0}: no data_batch_*.bin in it; unpack CIFAR-10's binary version there (its folder is "
                    "called cifar-10-batches-bin), or fetch it: paceline data cifar10 {0}",
                    directory.string()));
  }
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "test_batch.bin", format, split.test));
  return split;
}

const DataSource DataSources::cifar10 = {
    .form = "cifar10:DIR",
    .augments = true,
    .load = [](const config::DataConfig& data, const std::string& place,
               std::int64_t) -> absl::StatusOr<DataSets> {
      PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_cifar10(place));
      const Normalization normalization{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
      return image_sets(std::move(split), kCifarShape, normalization, data.augment, kImageClasses);
    }};

}  // namespace paceline::train
