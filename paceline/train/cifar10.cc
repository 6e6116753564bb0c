#include <string>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/train/images.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kRecord = 1 + kCifarShape.size();

absl::Status append_records(const fs::path& path, Images& images) {
  Bytes bytes;
  PACELINE_RETURN_IF_ERROR(append_file(path, kNoLimit, bytes));
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || size % kRecord != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, but CIFAR-10 records make a multiple of {}; the file is cut short or not "
                    "CIFAR-10's binary version: fetch it again",
                    path.string(), size, kRecord));
  }
  for (auto record = bytes.begin(); record != bytes.end(); record += kRecord) {
    if (*record >= kImageClasses) {
      return absl::InvalidArgumentError(
          fmt::format("{}: label {} in record {}, but CIFAR-10's go from 0 to 9; fetch the file again",
                      path.string(), *record, (record - bytes.begin()) / kRecord));
    }
    images.labels.push_back(*record);
    images.pixels.insert(images.pixels.end(), record + 1, record + kRecord);
  }
  return absl::OkStatus();
}

bool is_train_batch(const fs::path& path) {
  return path.filename().string().starts_with("data_batch_") && path.extension() == ".bin";
}

}  // namespace

absl::StatusOr<ImageSplit> read_cifar10(const fs::path& directory) {
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "CIFAR-10's data_batch_1.bin and test_batch.bin"));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, list_files(directory, Depth::kTop));
  ImageSplit split;
  for (const fs::path& file : files) {
    if (is_train_batch(file)) PACELINE_RETURN_IF_ERROR(append_records(file, split.train));
  }
  if (split.train.labels.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no data_batch_*.bin in it; unpack CIFAR-10's binary version there (its folder is "
                    "called cifar-10-batches-bin)",
                    directory.string()));
  }
  PACELINE_RETURN_IF_ERROR(append_records(directory / "test_batch.bin", split.test));
  return split;
}

}  // namespace paceline::train
