// Checkpoints of a run: RUN/checkpoints/v<version, 12 digits>/, with two files for each shard (shard_files.h)
// and state.json (checkpoint_state.h). The coordinator calls begin and finish, on one thread; in between, the
// servers write their shards into directory().
//
// Invariant: a directory with a final name is a whole checkpoint of one version, on disk to stay. One
// that is not finished is called "….partial", under a name that no other try has, as servers may still write
// into one that was given up; nobody resumes from it. Older checkpoints go only after a newer one has its
// name, so that there is one to resume from at every instant. What cannot be deleted stays and does no harm.
// Symbolic links are not looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/store/checkpoint_state.h"

namespace paceline::store {

inline constexpr int kKeptCheckpoints = 2;
inline constexpr char kCheckpointState[] = "state.json";  // in each of them

class CheckpointWriter {
 public:
  // Makes an empty directory for the servers to write into.
  static absl::StatusOr<CheckpointWriter> begin(const std::filesystem::path& run, Version version);

  const std::filesystem::path& directory() const { return partial_; }

  // To be called when every shard is written. Gives the checkpoint its name, then deletes all but the newest
  // `keep` up to this version, and what earlier tries at it left. Errors: FailedPrecondition when a shard's
  // file is missing; ResourceExhausted; the older checkpoints are then as they were. Requires: the state is
  // of the version begun with, and agrees with itself.
  absl::StatusOr<std::filesystem::path> finish(const CheckpointState& state, int keep = kKeptCheckpoints);
  // Instead of it, when a shard could not be written: deletes what there is of the checkpoint.
  void give_up();
  // What could not be deleted then.
  const absl::Status& left_over() const { return left_over_; }

 private:
  CheckpointWriter(std::filesystem::path run, Version version, std::filesystem::path partial)
      : run_(std::move(run)), version_(version), partial_(std::move(partial)) {}

  std::filesystem::path run_;
  Version version_;
  std::filesystem::path partial_;
  absl::Status left_over_;
};

struct Checkpoint {
  std::filesystem::path directory;
  CheckpointState state;
};

// All with a readable state, newest first.
absl::StatusOr<std::vector<Checkpoint>> checkpoints(const std::filesystem::path& run);

// The newest of them. Errors: NotFound when there is none; what is wrong with the newest when none is
// readable.
absl::StatusOr<Checkpoint> latest_checkpoint(const std::filesystem::path& run);

// The newest checkpoint whose files are all as they were written, or the one of a given version if its files
// are. It reads all of them.
struct WholeCheckpoint {
  Checkpoint checkpoint;
  Version newest;       // that there is, whole or not
  absl::Status damage;  // of that, where it is not this one
};
// Errors: NotFound when there is none, or not that one; DataLoss, with what is wrong with the newest, when
// none is whole; what a disk says that cannot be read: then nothing is known of them.
absl::StatusOr<WholeCheckpoint> newest_whole_checkpoint(const std::filesystem::path& run,
                                                        std::optional<Version> version = std::nullopt);

// All but the newest `keep`.
absl::Status remove_older_checkpoints(const std::filesystem::path& run, int keep);

// What a killed coordinator left unfinished. Servers that it had may still write into that for a moment, but
// begin no other one. Errors: not all could be removed.
absl::Status remove_partial_checkpoints(const std::filesystem::path& run);

// Nothing for any other name than a finished checkpoint's.
std::optional<Version> checkpoint_version(const std::string& name);

// Two histories of one run (histories.h) have checkpoints of the same name. Their states differ: each says to
// the nanosecond when its version was committed. This is a CRC-32 of that. Errors: NotFound; the disk's.
absl::StatusOr<std::uint32_t> checkpoint_identity(const std::filesystem::path& directory);

// Those are renamed to "….set-aside", which nobody resumes from.
using WhichCheckpoints = std::function<bool(Version version, const std::filesystem::path& directory)>;
absl::Status set_aside_checkpoints(const std::filesystem::path& run, const WhichCheckpoints& which);
// To be called before resuming from `version` although there are newer checkpoints (for example damaged
// ones): otherwise the next resume would go on with the history that this one leaves.
absl::Status set_aside_newer_checkpoints(const std::filesystem::path& run, Version version);

}  // namespace paceline::store
