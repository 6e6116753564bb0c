#include "paceline/formats/config/server_parts.h"

#include <fmt/format.h>

namespace paceline::config {

ServerSpread spread_of(const JobConfig& job) {
  if (job.hosts == 1) return ServerSpread::kOneHost;
  return job.placement == Placement::kCentral ? ServerSpread::kCentral : ServerSpread::kHosts;
}

bool sums_on_the_way(const JobConfig& job) {
  return spread_of(job) == ServerSpread::kCentral && job.reduce_in_group;
}

bool sends_early(const JobConfig& job) { return job.hosts > 1 && job.copies == 1 && !sums_on_the_way(job); }

std::optional<std::string> why_not_on_card(const JobConfig& job) {
  if (job.memory == ShardMemory::kHost) return "cluster.memory is \"host\"";
  if (!job.program) return "built-in models compute on processors";
  if (job.hosts > 1) return "the job has several hosts";
  if (job.servers > 1) return "the job has several servers";
  if (job.parallel.of_stages()) return "replicas are pipelines";
  if (job.reduce_in_group) return "cluster.reduction is \"group\"";
  if (std::holds_alternative<policy::LocalSgdSpec>(job.policy)) return "local SGD steps on processors";
  if (job.reject_outliers > 0) return "sync.reject_outliers looks at norms on processors";
  return std::nullopt;
}

absl::StatusOr<std::vector<ps::Layout>> server_parts(const ps::Layout& layout, std::int64_t servers,
                                                     ServerSpread spread, ps::OptimizerKind optimizer) {
  if (spread == ServerSpread::kCentral) {
    std::vector<ps::Layout> parts(static_cast<std::size_t>(servers));
    parts.front() = layout;
    return parts;
  }
  const bool one_a_host = spread == ServerSpread::kHosts;
  const int count = static_cast<int>(servers);
  const bool cut = one_a_host && !ps::is_tensorwise(optimizer);
  std::vector<ps::Layout> parts = cut ? layout.split_evenly(count) : layout.split(count);
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

}  // namespace paceline::config
