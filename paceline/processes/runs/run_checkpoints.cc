#include "paceline/processes/runs/run_checkpoints.h"

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/data_order.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::runs {

void RunCheckpoints::give_up() {
  if (!writer_) return;
  writer_->give_up();
  if (!writer_->left_over().ok()) notice_(std::string(writer_->left_over().message()));
  writer_.reset();
}

absl::StatusOr<std::string> RunCheckpoints::begin(Version version) {
  PACELINE_ASSIGN_OR_RETURN(writer_, store::CheckpointWriter::begin(run_, version));
  return writer_->directory().string();
}

absl::Status RunCheckpoints::finish(const control::ControllerState& state, Duration elapsed) {
  const store::CheckpointState saved{state, elapsed, state.ledger.committed(),
                                     static_cast<int>(job_.servers)};
  PACELINE_RETURN_IF_ERROR(writer_->finish(saved, static_cast<int>(job_.checkpoints_kept)).status());
  if (!writer_->left_over().ok()) notice_(std::string(writer_->left_over().message()));
  writer_.reset();
  return absl::OkStatus();
}

namespace {

// Adds the journal's part. A run that was begun elsewhere has no journal, and that of an earlier version less.
absl::Status add_recorded(const store::RunPaths& run, coordinator::Restart& restart) {
  const auto journal = store::JournalReader::open(run.journal());
  if (!journal.ok()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(restart.shard_lengths, journal->shard_lengths());
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal->run());
  const auto found = about.find(kDataOrderKey);
  if (found == about.end()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(restart.data_order, data_order_from_text(found->second));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<coordinator::Restart>> find_restart(const store::RunPaths& paths, GoOn go_on,
                                                                 const Notice& notice) {
  const absl::Status cleared = store::remove_partial_checkpoints(paths.root);
  if (!cleared.ok()) notice(std::string(cleared.message()));
  if (go_on == GoOn::kNo) return std::nullopt;
  const auto found = store::newest_whole_checkpoint(paths.root);
  if (go_on == GoOn::kIfThereIsACheckpoint && absl::IsNotFound(found.status())) return std::nullopt;
  // A disk's error says nothing about the checkpoints.
  if (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status()))
    return with_exit_reason(found.status(), ExitReason::kNothingToResume);
  PACELINE_RETURN_IF_ERROR(found.status());
  const store::Checkpoint& checkpoint = found->checkpoint;
  if (!found->damage.ok()) {
    const Version from = checkpoint.state.controller.version;
    notice(fmt::format("{}; going on from the checkpoint of version {}: {} lost",
                       std::string(found->damage.message()), from,
                       counted(found->newest.value() - from.value(), "commit")));
    PACELINE_RETURN_IF_ERROR(store::set_aside_newer_checkpoints(paths.root, from));
  }
  PACELINE_ASSIGN_OR_RETURN(auto files, store::names_in(checkpoint.directory));
  std::erase_if(
      files, [&](const std::string& name) { return !store::is_shard_file(name, checkpoint.state.shards); });
  coordinator::Restart restart{.state = checkpoint.state.controller,
                               .elapsed = checkpoint.state.elapsed,
                               .checkpoint_dir = checkpoint.directory.string(),
                               .files = std::move(files)};
  PACELINE_RETURN_IF_ERROR(add_recorded(paths, restart));
  return restart;
}

absl::Status go_back_to(const store::RunPaths& paths, Version version) {
  PACELINE_RETURN_IF_ERROR(store::newest_whole_checkpoint(paths.root, version).status());
  return store::set_aside_newer_checkpoints(paths.root, version);
}

std::optional<Version> newest_checkpoint(const store::RunPaths& paths) {
  const auto found = store::latest_checkpoint(paths.root);
  if (!found.ok()) return std::nullopt;
  return found->state.controller.version;
}

}  // namespace paceline::runs
