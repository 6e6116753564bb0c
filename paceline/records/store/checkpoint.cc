#include "paceline/records/store/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPartial = ".partial";
constexpr int kDeleteTries = 100;
constexpr std::chrono::milliseconds kDeletePause{30};
constexpr std::size_t kPiece = 1 << 20;

fs::path folder_of(const fs::path& run) { return run / "checkpoints"; }

std::string name_of(Version version) { return fmt::format("v{:012}", version.value()); }

fs::path final_path(const fs::path& run, Version version) { return folder_of(run) / name_of(version); }

// No names if the run has no such folder.
absl::StatusOr<std::vector<std::string>> names_if_there(const fs::path& folder) {
  auto names = names_in(folder);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

absl::StatusOr<std::vector<Version>> versions_in(const fs::path& run) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_if_there(folder_of(run)));
  std::vector<Version> versions;
  for (const std::string& name : names) {
    std::error_code ignored;
    const bool link = fs::is_symlink(fs::symlink_status(folder_of(run) / name, ignored));
    if (const auto version = checkpoint_version(name); version && !link) versions.push_back(*version);
  }
  std::sort(versions.rbegin(), versions.rend());
  return versions;
}

absl::Status delete_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? io_error(path, "removed", error.value()) : absl::OkStatus();
}

// Makes a directory with a unique name, which is to become `path`, or to which `path` is to be moved for
// deletion.
absl::StatusOr<fs::path> make_partial(const fs::path& path) {
  std::error_code error;
  for (int n = 1; !error; ++n) {
    fs::path partial = fmt::format("{}.{}{}", path.string(), n, kPartial);
    if (fs::create_directory(partial, error)) return partial;
  }
  return io_error(path, "made", error.value());
}

// Deletes a folder into which another process may still write for a moment: tries several times.
absl::Status delete_patiently(const fs::path& path) {
  absl::Status deleted = delete_tree(path);
  for (int tries = 0; !deleted.ok() && tries < kDeleteTries; ++tries) {
    std::this_thread::sleep_for(kDeletePause);
    deleted = delete_tree(path);
  }
  return deleted;
}

// Renames a checkpoint that is to be deleted, because a half-deleted one must not look whole.
absl::StatusOr<fs::path> take_name(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(fs::path doomed, make_partial(path));
  PACELINE_RETURN_IF_ERROR(move_to(path, doomed));
  return doomed;
}

absl::Status remove_checkpoint(const fs::path& run, Version version) {
  PACELINE_ASSIGN_OR_RETURN(const fs::path doomed, take_name(final_path(run, version)));
  return delete_tree(doomed);
}

absl::Status give_name(const fs::path& partial, const fs::path& path) {
  if (::rename(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  if (errno != ENOTEMPTY && errno != EEXIST) return io_error(partial, "renamed", errno);
  // A run that was resumed from an older checkpoint reaches this version again. The old and the new
  // checkpoint are swapped, so that one is always there.
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0)
    return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(take_name(path).status());
  return move_to(partial, path);
}

// Aborts on a state that the reader would call damaged.
void check_state(const CheckpointState& state, Version version) {
  const bool sane = state.controller.version == version && state.elapsed >= Duration::zero() &&
                    state.shards >= 1 && state.shards <= kMaxShards &&
                    state.samples == committed_samples(state.controller);
  PACELINE_CHECK(sane,
                 "the state of version {} with {} samples and {} shards cannot be that of checkpoint {}",
                 state.controller.version, state.samples, state.shards, version);
}

absl::Status expect_shards(const fs::path& directory, int count) {
  for (int index = 1; index <= count; ++index) {
    for (const fs::path& file :
         {weights_file(directory, index, count), optimizer_file(directory, index, count)}) {
      std::error_code error;
      if (fs::is_regular_file(file, error)) continue;
      return absl::FailedPreconditionError(fmt::format(
          "{}: not written, so the checkpoint is not finished; see that server's log", file.string()));
    }
  }
  return absl::OkStatus();
}

absl::Status remove_older(const fs::path& run, Version newest, int keep) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  for (int kept = 0; const Version version : versions) {
    if (version > newest || ++kept <= keep) continue;
    PACELINE_RETURN_IF_ERROR(remove_checkpoint(run, version));
  }
  return absl::OkStatus();
}

// Removes what is left of unfinished checkpoints whose names begin with `begin`; goes on after an error.
absl::Status remove_partial(const fs::path& run, const std::string& begin,
                            const std::function<absl::Status(const fs::path&)>& remove) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_if_there(folder_of(run)));
  absl::Status removed;
  for (const std::string& name : names) {
    if (name.starts_with(begin) && name.ends_with(kPartial)) removed.Update(remove(folder_of(run) / name));
  }
  return removed;
}

absl::Status no_checkpoint(const fs::path& run) {
  return absl::NotFoundError(fmt::format("{}: holds no whole checkpoint to resume from; start the job again",
                                         folder_of(run).string()));
}

absl::Status no_such_checkpoint(const fs::path& run, Version version, const std::vector<Version>& there) {
  std::vector<std::int64_t> numbers;
  for (const Version one : there) numbers.push_back(one.value());
  return absl::NotFoundError(
      fmt::format("{}: holds no checkpoint of version {}; it has {}", folder_of(run).string(), version,
                  numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "))));
}

absl::StatusOr<Checkpoint> read_whole(const fs::path& directory) {
  PACELINE_ASSIGN_OR_RETURN(CheckpointState state, read_checkpoint_state(directory / kCheckpointState));
  if (directory.filename() != name_of(state.controller.version)) {
    return absl::DataLossError(
        fmt::format("{}: damaged: it is of version {}", directory.string(), state.controller.version));
  }
  for (int index = 1; index <= state.shards; ++index)
    PACELINE_RETURN_IF_ERROR(check_shard(directory, index, state.shards));
  return Checkpoint{directory, std::move(state)};
}

// True if the error is about the files' contents. Any other error may be over by the next time, or with the version of
// Paceline that wrote them.
bool is_damage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

std::optional<Version> checkpoint_version(const std::string& name) {
  std::int64_t version = -1;
  if (name.starts_with('v')) std::from_chars(name.data() + 1, name.data() + name.size(), version);
  if (version < 0 || name != name_of(Version(version))) return std::nullopt;
  return Version(version);
}

absl::StatusOr<CheckpointWriter> CheckpointWriter::begin(const fs::path& run, Version version) {
  std::error_code error;
  fs::create_directories(folder_of(run), error);
  if (error) return io_error(folder_of(run), "made", error.value());
  PACELINE_ASSIGN_OR_RETURN(fs::path partial, make_partial(final_path(run, version)));
  return CheckpointWriter(run, version, std::move(partial));
}

absl::StatusOr<fs::path> CheckpointWriter::finish(const CheckpointState& state, int keep) {
  check_state(state, version_);
  PACELINE_CHECK(keep >= 1, "{} checkpoints to keep", keep);
  const fs::path path = final_path(run_, version_);
  PACELINE_RETURN_IF_ERROR(expect_shards(partial_, state.shards));
  PACELINE_RETURN_IF_ERROR(atomic_write(partial_ / kCheckpointState, to_text(state)));
  PACELINE_RETURN_IF_ERROR(give_name(partial_, path));
  PACELINE_RETURN_IF_ERROR(sync_directory(folder_of(run_)));
  left_over_ = remove_older(run_, version_, keep);
  left_over_.Update(remove_partial(run_, name_of(version_) + '.', delete_tree));
  return path;
}

void CheckpointWriter::give_up() { left_over_ = delete_patiently(partial_); }

absl::StatusOr<std::vector<Checkpoint>> checkpoints(const fs::path& run) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  std::vector<Checkpoint> found;
  for (const Version version : versions) {
    const fs::path directory = final_path(run, version);
    auto state = read_checkpoint_state(directory / kCheckpointState);
    const bool readable = state.ok() && state->controller.version == version;
    if (readable) found.push_back({directory, *std::move(state)});
  }
  return found;
}

absl::StatusOr<Checkpoint> latest_checkpoint(const fs::path& run) {
  PACELINE_ASSIGN_OR_RETURN(std::vector<Checkpoint> found, checkpoints(run));
  if (!found.empty()) return std::move(found.front());
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  for (const Version version : versions) {
    PACELINE_RETURN_IF_ERROR(read_checkpoint_state(final_path(run, version) / kCheckpointState).status());
  }
  return no_checkpoint(run);
}

absl::StatusOr<WholeCheckpoint> newest_whole_checkpoint(const fs::path& run, std::optional<Version> version) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  absl::Status damage;
  for (const Version one : versions) {
    if (version && one != *version) continue;
    auto whole = read_whole(final_path(run, one));
    if (whole.ok()) return WholeCheckpoint{*std::move(whole), versions.front(), damage};
    if (!is_damage(whole.status())) return whole.status();
    damage.Update(whole.status());
  }
  if (damage.ok() && version) return no_such_checkpoint(run, *version, versions);
  if (damage.ok()) return no_checkpoint(run);
  return absl::DataLossError(
      fmt::format("{}; {}", std::string(damage.message()),
                  version ? "name another version" : "no other checkpoint is whole: start the job again"));
}

absl::Status remove_older_checkpoints(const fs::path& run, int keep) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  return versions.empty() ? absl::OkStatus() : remove_older(run, versions.front(), keep);
}

absl::Status remove_partial_checkpoints(const fs::path& run) {
  return remove_partial(run, "", delete_patiently);
}

absl::Status set_aside_checkpoints(const fs::path& run, const WhichCheckpoints& which) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Version> versions, versions_in(run));
  bool moved = false;
  for (const Version version : versions) {
    const fs::path path = final_path(run, version);
    if (!which(version, path)) continue;
    PACELINE_RETURN_IF_ERROR(move_to(path, aside_of(path)));
    moved = true;
  }
  return moved ? sync_directory(folder_of(run)) : absl::OkStatus();
}

absl::Status set_aside_newer_checkpoints(const fs::path& run, Version version) {
  return set_aside_checkpoints(run, [&](Version one, const fs::path&) { return one > version; });
}

absl::StatusOr<std::uint32_t> checkpoint_identity(const fs::path& directory) {
  return read_pieces(directory / kCheckpointState, kPiece, [](std::string&) { return true; });
}

}  // namespace paceline::store
