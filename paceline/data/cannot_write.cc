#include "paceline/data/cannot_write.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace paceline::data {

absl::Status cannot_write(const std::filesystem::path& path, int error) {
  const std::string name = path.string();
  switch (error) {
    case EFBIG:
      return absl::UnavailableError(
          fmt::format("{}: ulimit -f allows no file of that length; raise it and try again", name));
    case ENOSPC:
    case EDQUOT:
      return absl::UnavailableError(
          fmt::format("{}: the disk is full; free some space there and try again", name));
    default:
      return absl::UnavailableError(fmt::format("{}: cannot be written: {}", name, std::strerror(error)));
  }
}

}  // namespace paceline::data
