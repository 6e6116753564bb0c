#include "paceline/decisions/coordinator/server_parts.h"

#include <algorithm>
#include <functional>
#include <numeric>

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

std::optional<std::vector<double>> shares_by_memory(std::span<const std::string> cards,
                                                    std::span<const CardMemory> found,
                                                    std::int64_t model_bytes) {
  // A card that its models fill gets a small part.
  constexpr double kLeast = 0.02;
  std::vector<double> shares;
  for (const std::string& card : cards) {
    std::int64_t free = 0, workers = 0;
    for (const CardMemory& one : found) {
      if (one.card != card) continue;
      free = std::max(free, one.free_bytes);  // the first one found no other worker there
      ++workers;
    }
    if (free <= 0) return std::nullopt;
    const double left = static_cast<double>(free - workers * model_bytes);
    const auto servers = static_cast<double>(std::count(cards.begin(), cards.end(), card));
    shares.push_back(std::max(left, kLeast * static_cast<double>(free)) / servers);
  }
  if (std::adjacent_find(cards.begin(), cards.end(), std::not_equal_to<>()) == cards.end())
    return std::nullopt;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
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
