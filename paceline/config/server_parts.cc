#include "paceline/config/server_parts.h"

#include <fmt/format.h>

namespace paceline::config {

absl::StatusOr<std::vector<ps::Layout>> server_parts(const ps::Layout& layout, std::int64_t servers) {
  std::vector<ps::Layout> parts = layout.split(static_cast<int>(servers));
  if (static_cast<std::int64_t>(parts.size()) == servers) return parts;
  return absl::InvalidArgumentError(
      fmt::format("cluster.servers: the model has too few tensors for {} servers; write at most {}", servers,
                  parts.size()));
}

}  // namespace paceline::config
