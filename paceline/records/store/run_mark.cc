#include "paceline/records/store/run_mark.h"

#include <system_error>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::store {

absl::StatusOr<RunMark> RunMark::leave(const RunPaths& run) {
  std::error_code ignored;
  const bool was_unfinished =
      std::filesystem::exists(run.mark(), ignored) || std::filesystem::exists(run.shut_down(), ignored);
  PACELINE_ASSIGN_OR_RETURN(MarkFile file, MarkFile::leave(run.mark()));
  std::filesystem::remove(run.shut_down(), ignored);
  return RunMark(run.root, std::move(file), was_unfinished);
}

absl::Status RunMark::note_shut_down() const {
  return atomic_write(RunPaths{run_}.shut_down(), "stopped with a host\n");
}

absl::Status RunMark::still_leads() const {
  if (file_.stands()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{}: another host leads this run by now, or has ended it; this one gives it up", run_.string()));
}

}  // namespace paceline::store
