// Checkpoints of a run: RUN/checkpoints/v<version, 12 digits>/, with two files for each shard (shard_files.h)
// and state.json (checkpoint_state.h). The coordinator calls begin and finish, on one thread; in between, the
// servers write their shards into directory().
//
// Invariant: a directory with a final name is a whole checkpoint of one version, durable on disk. An
// unfinished one is called "….partial", under a name that no other try has, because servers may still write
// into one that was given up; nobody resumes from it. Older checkpoints are deleted only after a newer one
// has its name, so that there is one to resume from at every instant. A directory that cannot be deleted
// stays and does no harm. Symbolic links are ignored.
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
#include "paceline/records/store/checkpoint_state.h"

namespace paceline::store {

inline constexpr int kKeptCheckpoints = 2;
inline constexpr char kCheckpointState[] = "state.json";  // in each of them

class CheckpointWriter {
 public:
  // Makes an empty directory for the servers to write into.
  static absl::StatusOr<CheckpointWriter> begin(const std::filesystem::path& run, Version version);

  const std::filesystem::path& directory() const { return partial_; }

  // Call when every shard is written. Gives the checkpoint its name, then deletes all but the newest `keep`
  // up to this version, and what is left of earlier tries at it. Errors: FailedPrecondition if a shard's file
  // is missing; ResourceExhausted; the older checkpoints are then unchanged. Requires: the state has the
  // version of begin(), and agrees with itself.
  absl::StatusOr<std::filesystem::path> finish(const CheckpointState& state, int keep = kKeptCheckpoints);
  // Call instead of finish() when a shard could not be written: deletes the unfinished checkpoint.
  void give_up();
  // The error of a deletion that failed in finish().
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

// All checkpoints with a readable state, newest first.
absl::StatusOr<std::vector<Checkpoint>> checkpoints(const std::filesystem::path& run);

// The newest of them. Errors: NotFound if there is none; the newest one's error if none is readable.
absl::StatusOr<Checkpoint> latest_checkpoint(const std::filesystem::path& run);

// The newest checkpoint whose files are all undamaged, or the one of a given version if its files are. Reads
// all files.
struct WholeCheckpoint {
  Checkpoint checkpoint;
  Version newest;       // the newest version with a checkpoint, whole or not
  absl::Status damage;  // the error of that newest checkpoint, if it is not this one
};
// Errors: NotFound if there is none, or none of that version; DataLoss with the newest one's damage if none
// is whole; a disk's error if it cannot be read: then nothing is known about the checkpoints.
absl::StatusOr<WholeCheckpoint> newest_whole_checkpoint(const std::filesystem::path& run,
                                                        std::optional<Version> version = std::nullopt);

// Removes all but the newest `keep`.
absl::Status remove_older_checkpoints(const std::filesystem::path& run, int keep);

// Removes the checkpoints that a killed coordinator left unfinished. Its servers may still write into the
// last of them for a moment, but begin no other one. Errors: not all could be removed.
absl::Status remove_partial_checkpoints(const std::filesystem::path& run);

// Nothing if this is not the name of a finished checkpoint.
std::optional<Version> checkpoint_version(const std::string& name);

// Tells apart checkpoints of the same name from two histories of one run (histories.h): a CRC-32 of their
// states, which say to the nanosecond when their version was committed. Errors: NotFound; the disk's.
absl::StatusOr<std::uint32_t> checkpoint_identity(const std::filesystem::path& directory);

// Renames these checkpoints to "….set-aside", from which nobody resumes.
using WhichCheckpoints = std::function<bool(Version version, const std::filesystem::path& directory)>;
absl::Status set_aside_checkpoints(const std::filesystem::path& run, const WhichCheckpoints& which);
// Call before resuming from `version` although there are newer checkpoints (for example damaged ones).
// Otherwise the next resume would continue the history that this one abandons.
absl::Status set_aside_newer_checkpoints(const std::filesystem::path& run, Version version);

}  // namespace paceline::store
