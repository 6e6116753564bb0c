#include "paceline/computing/train/cifar_records.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::train {

absl::Status append_cifar_records(const std::filesystem::path& path, const CifarFormat& format,
                                  Images& images) {
  Bytes bytes;
  PACELINE_RETURN_IF_ERROR(append_file(path, kNoLimit, bytes));
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || size % format.record() != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, but {} records make a multiple of {}; the file is cut short or not {}'s "
                    "binary version: fetch it again",
                    path.string(), size, format.name, format.record(), format.name));
  }
  for (auto record = bytes.begin(); record != bytes.end(); record += format.record()) {
    const auto pixels = record + format.label_bytes;
    const std::uint8_t label = *(pixels - 1);
    if (label >= format.classes) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: label {} in record {}, but {}'s go from 0 to {}; fetch the file again", path.string(), label,
          (record - bytes.begin()) / format.record(), format.name, format.classes - 1));
    }
    images.labels.push_back(label);
    images.pixels.insert(images.pixels.end(), pixels, record + format.record());
  }
  return absl::OkStatus();
}

}  // namespace paceline::train
