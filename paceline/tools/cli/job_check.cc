#include "paceline/tools/cli/job_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/parameter_groups.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/compute/attached_size.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/server/shards.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::cli {

namespace {

constexpr std::size_t kDigestBytes = 16;  // a frozen tensor's, as the Python package makes it

// A batch that is larger than the training set takes all of it, as a DataLoader's does.
absl::Status check_batches(const config::JobConfig& job, std::int64_t samples) {
  if (config::samples_an_epoch(job, samples) >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "drop_last leaves nothing to train on: the training set has {} samples, which is less than a "
      "batch; make the batch smaller, or leave drop_last out",
      with_thousands(samples)));
}

// Weights that are read while the next ones are made, the optimizer's state, and each worker's gradient.
std::int64_t floats_a_parameter(const config::JobConfig& job, std::int64_t workers) {
  return 2 + ps::state_streams(job.optimizer.kind) + workers;
}

// The size of a server's board for its versions; each worker and its successor, and the evaluator, may hold a
// version back. In virtual time one reader and one kept version are enough.
std::int64_t board_bytes(const config::JobConfig& job, const ps::Layout& part, bool in_virtual_time) {
  const auto all = static_cast<int>(2 * job.devices.size() + 1 + (job.hosts > 1 ? job.hosts : 0));
  const int readers = in_virtual_time ? 1 : all;
  const int kept = in_virtual_time ? 1 : server::kMostKept;
  if (part.size() == 0) return 0;
  return static_cast<std::int64_t>(
      memory::WeightWriter::bytes(ps::Shard::board_floats(part, job.look_ahead), readers, kept));
}

std::string bytes_in_words(std::int64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

absl::Status check_sizes(const config::JobConfig& job, const ps::Layout& layout, std::int64_t samples) {
  PACELINE_RETURN_IF_ERROR(check_batches(job, samples));
  PACELINE_RETURN_IF_ERROR(ps::check_groups(layout, job.groups));
  return config::server_parts(job, layout).status();
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

absl::Status check_file_size(const config::JobConfig& job, const ps::Layout& layout, std::int64_t limit,
                             bool in_virtual_time) {
  PACELINE_ASSIGN_OR_RETURN(const auto parts, config::server_parts(job, layout));
  std::int64_t board = 0;
  for (const ps::Layout& part : parts) board = std::max(board, board_bytes(job, part, in_virtual_time));
  const std::int64_t need = std::max(4 * layout.size(), board);
  if (need <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "ulimit -f allows files of {}, and the job needs one of {}: shared memory counts as a file; "
      "raise it, for example ulimit -f unlimited",
      bytes_in_words(limit), bytes_in_words(need)));
}

absl::Status check_names(const std::string& job_toml, const program::Model& model) {
  PACELINE_RETURN_IF_ERROR(runs::check_length(job_toml));
  wire::WorkerAttached attached;
  *attached.mutable_layout() = wire::to_wire(model.layout);
  for (const engine::FrozenTensor& tensor : model.frozen) {
    wire::FrozenTensor* const added = attached.add_frozen();
    added->set_name(tensor.name);
    added->set_digest(std::string(kDigestBytes, '0'));  // a worker's program says it
  }
  return compute::check_size(attached, job_toml.size());
}

}  // namespace paceline::cli
