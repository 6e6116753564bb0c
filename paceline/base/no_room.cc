#include "paceline/base/no_room.h"

#include <cerrno>

#include <fmt/format.h>

namespace paceline {

std::optional<absl::Status> no_room(const std::filesystem::path& path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(
          fmt::format("{}: the disk is full; free some space there and try again", path.string()));
    case EFBIG:
      return absl::ResourceExhaustedError(
          fmt::format("{}: ulimit -f allows no file of that length; raise it and try again", path.string()));
    default:
      return std::nullopt;
  }
}

}  // namespace paceline
