#include "paceline/tools/ui/run_state.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <absl/strings/match.h>
#include <fmt/format.h>

#include "paceline/formats/config/reach.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::ui {

namespace {

namespace fs = std::filesystem;

// How long a killed run counts as training: a coordinator that dies is back sooner. If another host leads the
// run, its lock cannot be seen here, so the wait is longer.
constexpr std::chrono::seconds kQuiet{30}, kQuietHere{3};
constexpr std::size_t kLastOfLog = 4096;  // bytes
constexpr std::size_t kLongestWhy = 400;

// True if a process of this host holds the file, according to the system's list.
bool is_held(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return false;
  std::ifstream locks("/proc/locks");  // a file whose size is not known before it is read
  const std::string inode =
      fmt::format(" {:02x}:{:02x}:{} ", major(status.st_dev), minor(status.st_dev), status.st_ino);
  for (std::string line; std::getline(locks, line);) {
    if (absl::StrContains(line, inode)) return true;
  }
  return false;
}

bool changed_lately(const store::RunPaths& run) {
  const auto leader = runs::read_leader(run);
  const auto quiet = leader.ok() && config::is_loopback(leader->address) ? kQuietHere : kQuiet;
  for (const fs::path& file : {run.metrics(), fs::path(run.journal().string() + "-wal"), run.mark()}) {
    std::error_code error;
    const auto written = fs::last_write_time(file, error);
    const auto age = fs::file_time_type::clock::now() - written;
    // Clocks of hosts differ a little. A file that is much newer was written before this clock was set back.
    if (!error && age < quiet && age > -quiet) return true;
  }
  return false;
}

bool is_led(const store::RunPaths& run) {
  std::error_code error;
  return is_held(run.lock()) || (fs::exists(run.mark(), error) && changed_lately(run));
}

// The last line of a log: the words with which a process ended. In another person's folder it may be a link to a file that
// is nobody's business, or a pipe.
std::string last_line(const fs::path& file) {
  std::error_code error;
  for (const fs::path& part : {file.parent_path(), file}) {
    if (fs::is_symlink(fs::symlink_status(part, error))) return "";
  }
  std::int64_t size = 0;
  const auto log = store::open_to_read(file, size);
  if (!log.ok()) return "";
  const std::int64_t from = std::max<std::int64_t>(0, size - static_cast<std::int64_t>(kLastOfLog));
  std::string text(static_cast<std::size_t>(size - from), '\0');
  const auto read = store::read_at(*log, file, from, text.data(), text.size());
  if (!read.ok()) return "";
  text.resize(*read);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t start = text.rfind('\n');
  return report::printable(text.substr(start == std::string::npos ? 0 : start + 1)).substr(0, kLongestWhy);
}

StateOfRun ended(const store::RunPaths& run) {
  const auto journal = store::JournalReader::open(run.journal());
  if (!journal.ok()) return {RunState::kFailed, last_line(run.logs() / "coordinator.log")};
  const auto finish = journal->finish();
  if (finish.ok() && *finish) {
    const bool stopped = (*finish)->cause == control::FinishCause::kStopped;
    return {stopped ? RunState::kStopped : RunState::kFinished, (*finish)->why};
  }
  std::error_code error;
  if (fs::exists(run.mark(), error)) return {RunState::kLost, "it was cut short"};
  return {RunState::kFailed, last_line(run.logs() / "coordinator.log")};
}

}  // namespace

std::string to_string(RunState state) {
  switch (state) {
    case RunState::kStarting:
      return "starting";
    case RunState::kTraining:
      return "training";
    case RunState::kFinished:
      return "finished";
    case RunState::kStopped:
      return "stopped";
    case RunState::kFailed:
      return "failed";
    case RunState::kLost:
      return "lost";
  }
  return "";
}

StateOfRun state_of(const store::RunPaths& run) {
  if (!is_led(run)) return ended(run);
  std::error_code error;
  return {fs::exists(run.metrics(), error) ? RunState::kTraining : RunState::kStarting};
}

}  // namespace paceline::ui
