#include "paceline/cli/run_checkpoints.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::cli {

absl::StatusOr<std::string> RunCheckpoints::begin(Version version) {
  PACELINE_ASSIGN_OR_RETURN(writer_, store::CheckpointWriter::begin(run_, version));
  return writer_->directory().string();
}

absl::Status RunCheckpoints::finish(const control::ControllerState& state, Duration elapsed) {
  const store::CheckpointState saved{state, elapsed, state.ledger.committed(),
                                     static_cast<int>(job_.servers)};
  return writer_->finish(saved, static_cast<int>(job_.checkpoints_kept)).status();
}

absl::StatusOr<std::optional<rpc::Restart>> find_restart(const store::RunPaths& paths,
                                                         const config::JobConfig& job, bool resume) {
  PACELINE_RETURN_IF_ERROR(store::remove_partial_checkpoints(paths.root));
  if (!resume) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const store::Checkpoint checkpoint, store::latest_checkpoint(paths.root));
  if (checkpoint.state.shards != job.servers) {
    return absl::InvalidArgumentError(
        fmt::format("cluster.servers: the checkpoint {} has {} shards; resume with that many servers",
                    checkpoint.directory.string(), checkpoint.state.shards));
  }
  return rpc::Restart{checkpoint.state.controller, checkpoint.state.elapsed, checkpoint.directory.string()};
}

}  // namespace paceline::cli
