#include "paceline/cli/job_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"
#include "paceline/policy/policy_spec.h"
#include "paceline/ps/parameter_groups.h"
#include "paceline/report/terminal_text.h"

namespace paceline::cli {

namespace {

absl::Status check_batches(const config::JobConfig& job, std::int64_t samples) {
  const bool of_pipelines = job.parallel.of_stages() && !job.parallel.to_be_planned;
  const auto& replicas = job.parallel.plan.replicas;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const planner::PlannedReplica& replica = replicas[i];
    if (replica.samples <= samples) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: an iteration of {} takes {} samples, and the training set has {}; write at most {}",
                    of_pipelines ? fmt::format("pipeline[{}].samples", i)
                                 : fmt::format("device[{}].batch", replica.devices.front()),
                    config::replica_name(job, replica), with_thousands(replica.samples),
                    with_thousands(samples), samples));
  }
  return absl::OkStatus();
}

// Weights that are read while the next ones are made, the optimizer's state, and each worker's gradient.
std::int64_t floats_a_parameter(const config::JobConfig& job, std::int64_t workers) {
  return 2 + ps::state_streams(job.optimizer.kind) + workers;
}

}  // namespace

absl::Status check_sizes(const config::JobConfig& job, const ps::Layout& layout, std::int64_t samples) {
  PACELINE_RETURN_IF_ERROR(check_batches(job, samples));
  PACELINE_RETURN_IF_ERROR(ps::check_groups(layout, job.groups));
  return config::server_parts(layout, job.servers, config::spread_of(job), job.optimizer.kind).status();
}

absl::Status check_memory(const config::JobConfig& job, const ps::Layout& layout,
                          const launch::HostMemory& memory) {
  const auto workers = static_cast<std::int64_t>(job.devices.size());
  // Shards are spread over hosts, and so are workers. Stages have a gradient each replica between them.
  if (job.hosts > 1 || job.parallel.of_stages() || memory.bytes == 0) return absl::OkStatus();
  const std::int64_t need = 4 * layout.size() * floats_a_parameter(job, workers);
  if (need <= memory.bytes) return absl::OkStatus();
  const auto gb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  return absl::InvalidArgumentError(fmt::format(
      "the job needs at least {:.1f} GB of memory ({} parameters, {}), and {} has {:.1f} GB; "
      "take a smaller model, "
      "or fewer workers",
      gb(need), with_thousands(layout.size()), counted(workers, "worker"), memory.of, gb(memory.bytes)));
}

absl::Status check_file_size(const ps::Layout& layout, std::int64_t limit) {
  const std::int64_t gradient = 4 * layout.size();
  if (gradient <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "ulimit -f allows files of {:.1f} MB, and a gradient in shared memory counts as a file of {:.1f} MB; "
      "raise it, for example ulimit -f unlimited",
      static_cast<double>(limit) / 1e6, static_cast<double>(gradient) / 1e6));
}

}  // namespace paceline::cli
