#include "paceline/formats/config/server_parts.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace paceline::config {

ServerSpread spread_of(const JobConfig& job) {
  if (job.hosts == 1) return ServerSpread::kOneHost;
  return job.placement == Placement::kCentral ? ServerSpread::kCentral : ServerSpread::kHosts;
}

bool takes_bfloat16(const JobConfig& job) {
  const bool one_host = job.hosts == 1 && job.without.empty();
  const bool on_several_cards = job.servers > 1 && job.memory == ShardMemory::kGpu;
  const bool by_differences = std::holds_alternative<policy::LocalSgdSpec>(job.policy);
  return one_host && !on_several_cards && !job.parallel.of_stages() && !by_differences &&
         !job.reduce_in_group && !ps::is_tensorwise(job.optimizer.kind);
}

std::optional<std::string> servers_setting(const JobConfig& job, std::int32_t cards) {
  const auto servers = std::min<std::int64_t>(cards, std::ssize(job.devices));
  if (job.memory != ShardMemory::kGpu || job.says_servers || servers < 2) return std::nullopt;
  JobConfig divided = job;
  divided.servers = servers;
  if (why_not_on_card(divided)) return std::nullopt;
  return fmt::format("cluster.servers={}", servers);
}

bool sums_on_the_way(const JobConfig& job) {
  return spread_of(job) == ServerSpread::kCentral && job.reduce_in_group;
}

bool sends_early(const JobConfig& job) { return job.hosts > 1 && job.copies == 1 && !sums_on_the_way(job); }

std::optional<std::string> why_not_on_card(const JobConfig& job) {
  if (job.memory == ShardMemory::kHost) return "cluster.memory is \"host\"";
  if (!job.program) return "built-in models compute on processors";
  if (job.hosts > 1) return "the job has several hosts";
  if (job.servers > 1 && job.memory != ShardMemory::kGpu) return "the job has several servers";
  if (job.servers > 1 && job.look_ahead) return "the job has several servers, and its replicas look ahead";
  // A server on a card has no other part of a gradient than its own.
  if (job.servers > 1 && job.optimizer.clip > 0)
    return "the job has several servers, and optimizer.clip is about the norm of a whole gradient";
  if (job.parallel.of_stages()) return "replicas are pipelines";
  if (job.reduce_in_group) return "cluster.reduction is \"group\"";
  if (std::holds_alternative<policy::LocalSgdSpec>(job.policy)) return "local SGD steps on processors";
  if (job.reject_outliers > 0) return "sync.reject_outliers looks at norms on processors";
  return std::nullopt;
}

absl::StatusOr<std::vector<Layout>> server_parts(const JobConfig& job, const Layout& layout) {
  return coordinator::server_parts(layout, job.servers, spread_of(job),
                                   ps::is_tensorwise(job.optimizer.kind));
}

}  // namespace paceline::config
