// CIFAR's binary files: records of some label bytes and 3,072 pixel bytes. For the readers of CIFAR-10 and
// CIFAR-100 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <absl/status/status.h>

#include "paceline/computing/train/images.h"

namespace paceline::train {

struct CifarFormat {
  std::string name;              // "CIFAR-10"
  std::int64_t label_bytes = 1;  // the last of them is the label
  std::int64_t classes = 10;

  std::int64_t record() const { return label_bytes + kCifarShape.size(); }
};

// Errors: the file cannot be read, is empty or cut short, or has a label that is not below `classes`.
absl::Status append_cifar_records(const std::filesystem::path& path, const CifarFormat& format,
                                  Images& images);

}  // namespace paceline::train
