#include "paceline/formats/config/server_parts.h"

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

absl::StatusOr<std::vector<Layout>> server_parts(const JobConfig& job, const Layout& layout) {
  return coordinator::server_parts(layout, job.servers, spread_of(job),
                                   ps::is_tensorwise(job.optimizer.kind));
}

}  // namespace paceline::config
