// The mark of a coordinator in its run's folder. It is there while one leads the run. When a coordinator is
// killed, it is left, and says that the run was cut short: nobody has ended it. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/store/mark_file.h"
#include "paceline/store/run_folder.h"

namespace paceline::store {

class RunMark {
 public:
  // Takes the place of the one before. Errors: what the file system says.
  static absl::StatusOr<RunMark> leave(const RunPaths& run);

  // Another one was there: the run was cut short.
  bool was_cut_short() const { return was_cut_short_; }
  // OK while this is the folder's mark. Else another host leads the run by now, or has ended it: a server of
  // a network file system takes a host that is cut off for a dead one, and gives its lock to the next one.
  // Errors: FailedPrecondition.
  absl::Status still_leads() const;
  // The run is as unfinished as it was: the mark stays for others to see.
  void keep() { file_.keep(); }
  // The run ends in order, as a host that has a part of it is shut down: who starts the same job later goes
  // on with it. This lasts until the next mark. Errors: what the file system says.
  absl::Status note_shut_down() const;

  // What other hosts look for, to see that the folder is shared.
  const std::filesystem::path& file() const { return file_.file(); }
  const std::string& text() const { return file_.text(); }

 private:
  RunMark(std::filesystem::path run, MarkFile file, bool was_cut_short)
      : run_(std::move(run)), file_(std::move(file)), was_cut_short_(was_cut_short) {}

  std::filesystem::path run_;
  MarkFile file_;
  bool was_cut_short_;
};

}  // namespace paceline::store
