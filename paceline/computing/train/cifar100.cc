#include <system_error>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/cifar_records.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/image_set.h"

namespace paceline::train {

absl::StatusOr<ImageSplit> read_cifar100(const std::filesystem::path& directory) {
  // A label of one of 20 kinds, then one of 100 classes: the classes are what is trained.
  const CifarFormat format{.name = "CIFAR-100", .label_bytes = 2, .classes = kCifar100Classes};
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "CIFAR-100's train.bin and test.bin", "cifar100"));
  std::error_code error;
  if (!std::filesystem::exists(directory / "train.bin", error)) {
    return absl::NotFoundError(
        fmt::format("{0}: no train.bin in it; unpack CIFAR-100's binary version there (its folder is called "
                    "cifar-100-binary), or fetch it: paceline data cifar100 {0}",
                    directory.string()));
  }
  ImageSplit split;
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "train.bin", format, split.train));
  PACELINE_RETURN_IF_ERROR(append_cifar_records(directory / "test.bin", format, split.test));
  return split;
}

const DataSource DataSources::cifar100 = {
    .form = "cifar100:DIR",
    .augments = true,
    .load = [](const config::DataConfig& data, const std::string& place,
               std::int64_t) -> absl::StatusOr<DataSets> {
      PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_cifar100(place));
      const Normalization normalization{{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};
      return image_sets(std::move(split), kCifarShape, normalization, data.augment, kCifar100Classes);
    }};

}  // namespace paceline::train
