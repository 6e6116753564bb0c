#include "paceline/launch/failed_run.h"

#include <filesystem>
#include <fstream>

#include <absl/strings/match.h>
#include <fmt/format.h>

#include "paceline/roles/peer.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/journal_reader.h"
#include "paceline/store/run_folder.h"

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

// Whether any line of a log is more than the error over again, or what follows from every error.
bool says_more(const fs::path& log, const std::string& error) {
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const bool known =
        absl::StrContains(line, error) || absl::StrContains(line, roles::coordinator_lost().message());
    if (!line.empty() && !known) return true;
  }
  return false;
}

bool logs_say_more(const fs::path& logs, const std::string& error) {
  std::error_code failed;
  for (auto log = fs::directory_iterator(logs, failed); !failed && log != fs::directory_iterator();
       log.increment(failed)) {
    if (says_more(log->path(), error)) return true;
  }
  return false;
}

}  // namespace

bool has_trained(const std::string& folder) {
  if (store::latest_checkpoint(folder).ok()) return true;
  auto journal = store::JournalReader::open(store::RunPaths{folder}.journal());
  bool any = false;
  return journal.ok() && journal->facts([&](const control::Fact&) { any = true; }).ok() && any;
}

absl::Status end_of_failed(const absl::Status& error, const std::string& folder, bool resumed,
                           const std::string& command) {
  const std::string message(error.message());
  const store::RunPaths paths{folder};
  if (store::latest_checkpoint(folder).ok()) {
    if (absl::IsInvalidArgument(error)) return error;
    return {error.code(), fmt::format("{}; resume with: {} --resume {}", message, command, folder)};
  }
  if (!resumed && !has_trained(folder) && !logs_say_more(paths.logs(), message)) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove_all(folder, ignored);
    return error;
  }
  const std::string logs = paths.logs().string();
  if (absl::StrContains(message, logs)) return error;
  return {error.code(), fmt::format("{}; logs: {}", message, logs)};
}

}  // namespace paceline::launch
