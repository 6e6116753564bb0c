#include "paceline/decisions/coordinator/server_parts.h"

#include <fmt/format.h>

namespace paceline::coordinator {

absl::StatusOr<std::vector<Layout>> server_parts(const Layout& layout, std::int64_t servers,
                                                 ServerSpread spread, bool whole_tensors) {
  if (spread == ServerSpread::kCentral) {
    std::vector<Layout> parts(static_cast<std::size_t>(servers));
    parts.front() = layout;
    return parts;
  }
  const bool one_a_host = spread == ServerSpread::kHosts;
  const int count = static_cast<int>(servers);
  const bool cut = one_a_host && !whole_tensors;
  std::vector<Layout> parts = cut ? layout.split_evenly(count) : layout.split(count);
  if (static_cast<std::int64_t>(parts.size()) == servers) return parts;
  if (one_a_host) {
    return absl::InvalidArgumentError(
        fmt::format("cluster.hosts: the model {} for {} hosts; write at most {}",
                    cut ? "is too small" : "has too few tensors", servers, parts.size()));
  }
  return absl::InvalidArgumentError(
      fmt::format("cluster.servers: the model has too few tensors for {} servers; write at most {}", servers,
                  parts.size()));
}

ServerShards shards_kept(int servers, int copies) {
  ServerShards kept(static_cast<std::size_t>(servers));
  for (const ServerId server : kept.ids()) {
    for (int copy = 0; copy < copies; ++copy)
      kept[server].emplace_back((server.value() + servers - copy) % servers);
  }
  return kept;
}

}  // namespace paceline::coordinator
