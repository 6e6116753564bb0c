#include "paceline/computing/data/cannot_write.h"

#include <cstring>

#include <fmt/format.h>

#include "paceline/base/no_room.h"

namespace paceline::data {

absl::Status cannot_write(const std::filesystem::path& path, int error) {
  if (auto full = no_room(path, error)) return *std::move(full);
  return absl::UnavailableError(
      fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

}  // namespace paceline::data
