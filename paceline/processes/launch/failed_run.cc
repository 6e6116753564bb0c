#include "paceline/processes/launch/failed_run.h"

#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/shell_word.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::launch {

namespace fs = std::filesystem;

namespace {

// Whether this is known: a disk that cannot be read says nothing about the run.
bool has_never_trained(const std::string& folder) {
  if (!absl::IsNotFound(store::latest_checkpoint(folder).status())) return false;
  auto journal = store::JournalReader::open(store::RunPaths{folder}.journal());
  if (!journal.ok()) return absl::IsNotFound(journal.status());
  bool any = false;
  return journal->facts([&](const control::Fact&) { any = true; }).ok() && !any;
}

}  // namespace

bool has_trained(const std::string& folder) {
  if (store::latest_checkpoint(folder).ok()) return true;
  auto journal = store::JournalReader::open(store::RunPaths{folder}.journal());
  bool any = false;
  return journal.ok() && journal->facts([&](const control::Fact&) { any = true; }).ok() && any;
}

std::string resume_with(const std::string& command) {
  return fmt::format("resume with: {} --resume ", command);
}

std::string resume_with(const std::string& command, const std::string& folder) {
  return resume_with(command) + shell_word(folder);
}

absl::Status end_of_failed(const absl::Status& error, const std::string& folder, bool resumed,
                           const std::string& command, bool logs_say_more) {
  const std::string message(error.message());
  const store::RunPaths paths{folder};
  if (exit_reason_of(error) == ExitReason::kHostGivenUp) return error;  // the run goes on elsewhere
  // The coordinator has read the checkpoint's bytes. Reading them again may take minutes.
  if (exit_reason_of(error) != ExitReason::kNothingToResume && store::latest_checkpoint(folder).ok()) {
    if (absl::IsInvalidArgument(error)) return error;
    return {error.code(), fmt::format("{}; {}", message, resume_with(command, folder))};
  }
  if (!resumed && has_never_trained(folder) && !logs_say_more &&
      exit_reason_of(error) != ExitReason::kUnsaid) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove_all(folder, ignored);
    return error;
  }
  if (exit_reason_of(error) == ExitReason::kUnsaid) return error;  // the error names the log
  return {error.code(), fmt::format("{}; logs: {}", message, paths.logs().string())};
}

}  // namespace paceline::launch
