// A run's folder: everything one run leaves on disk lies in it. The job's process holds a RunFolder; a report
// or a replay only reads, and needs no more than RunPaths.
//
// Invariant: a folder belongs to one run, and at most one process at a time writes to it (flock on RUN/lock,
// which the system unlocks when the process dies). A folder that exists is never taken for a new run. Only
// its owner may look into a new one, and a process that writes into one follows no symbolic link in it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::store {

// The paths in a run's folder.
struct RunPaths {
  std::filesystem::path root;

  std::filesystem::path job() const { return root / "job.toml"; }  // with all settings, defaults included
  // the settings before anything was planned
  std::filesystem::path asked() const { return root / "asked.toml"; }
  // the program's settings, from its probe
  std::filesystem::path program() const { return root / "program.json"; }
  // The values of frozen tensors, which the program writes once, and their digests.
  std::filesystem::path frozen() const { return root / "frozen.safetensors"; }
  std::filesystem::path frozen_digests() const { return root / "frozen.json"; }
  std::filesystem::path journal() const { return root / "journal.sqlite"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }  // a LineFile
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path report() const { return root / "report.html"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  std::filesystem::path logs() const { return root / "logs"; }
  std::filesystem::path tensorboard() const {
    return root / "tensorboard";
  }  // event files, if the job wants them
  // the token, unless the job names another file
  std::filesystem::path token() const { return root / "token"; }
  std::filesystem::path lock() const { return root / "lock"; }
  std::filesystem::path mark() const { return root / "mark"; }  // the coordinator's mark, while it lives
  // present: the run was stopped because a host was shut down
  std::filesystem::path shut_down() const { return root / "shut_down"; }
  std::filesystem::path leader() const { return root / "leader"; }  // the leader's address, for other hosts
  // the address of the host that would lead next
  std::filesystem::path next_leader() const { return root / "next_leader"; }
};

// A file in the folder of a comparison, which holds several runs.
inline constexpr char kComparisonFile[] = "comparison.json";

// The paths of an existing run, to read. Errors: NotFound; FailedPrecondition if the folder is not a run's; PermissionDenied.
absl::StatusOr<RunPaths> find_run(const std::filesystem::path& root);

class RunFolder {
 public:
  // Makes "<base>/<name>-<UTC time, to the millisecond>-<method>", so that runs of one name sort by the time
  // they were made, also after the clock was set back; if that exists, with "-2", "-3" … behind it. Writes
  // job.toml. Characters that do not belong in a file name become '-': one for several in a row.
  static absl::StatusOr<RunFolder> create(const std::filesystem::path& base, const std::string& name,
                                          const std::string& method,
                                          std::chrono::system_clock::time_point now, const std::string& job);

  // Removes what killed processes left of copies of the journal. Errors: those of find_run; FailedPrecondition
  // if another process uses the folder; InvalidArgument for a link.
  static absl::StatusOr<RunFolder> resume(const std::filesystem::path& root);

  const RunPaths& paths() const { return paths_; }

 private:
  RunFolder(RunPaths paths, FileDescriptor lock) : paths_(std::move(paths)), lock_(std::move(lock)) {}

  RunPaths paths_;
  FileDescriptor lock_;  // when it is closed, the folder is free again
};

}  // namespace paceline::store
