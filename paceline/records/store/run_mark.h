// A coordinator's mark in its run's folder. It is there while a coordinator leads the run. If the coordinator
// is killed, the mark stays, and tells that the run was cut short: nobody has ended it. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/mark_file.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::store {

class RunMark {
 public:
  // Leaves a mark, in place of an earlier one. Errors: the file system's.
  static absl::StatusOr<RunMark> leave(const RunPaths& run);

  // True if nobody had ended the run: its coordinator was killed, or one of its hosts was shut down.
  bool was_unfinished() const { return was_unfinished_; }
  // OK while this is the folder's mark. Otherwise another host leads the run by now, or has ended it: the
  // server of a network file system takes a host that is cut off for dead, and gives its lock to the next
  // one. Errors: FailedPrecondition.
  absl::Status still_leads() const;
  // Lets the mark stay, because the run is as unfinished as before.
  void keep() { file_.keep(); }
  // Notes that the run ends in order because one of its hosts is shut down, so the next start of the same job
  // continues it. The note lasts until the next mark. Errors: the file system's.
  absl::Status note_shut_down() const;

  // The mark's file and text, which other hosts look for, to see that the folder is shared.
  const std::filesystem::path& file() const { return file_.file(); }
  const std::string& text() const { return file_.text(); }

 private:
  RunMark(std::filesystem::path run, MarkFile file, bool was_unfinished)
      : run_(std::move(run)), file_(std::move(file)), was_unfinished_(was_unfinished) {}

  std::filesystem::path run_;
  MarkFile file_;
  bool was_unfinished_;
};

}  // namespace paceline::store
