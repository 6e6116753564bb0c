#include "paceline/processes/launch/task_meeting.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/lock_file.h"

namespace paceline::launch {

namespace {

constexpr std::size_t kMostBytes = 1 << 20;

// Whether another process holds it.
bool is_locked(const FileDescriptor& file) {
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(file.get(), LOCK_UN);
  return false;
}

// The lines that are whole.
std::pair<std::optional<std::string>, std::optional<std::string>> two_lines(const std::string& text) {
  const std::size_t first = text.find('\n');
  if (first == std::string::npos) return {};
  const std::size_t second = text.find('\n', first + 1);
  if (second == std::string::npos) return {text.substr(0, first), std::nullopt};
  return {text.substr(0, first), text.substr(first + 1, second - first - 1)};
}

}  // namespace

absl::StatusOr<TaskLead> TaskLead::begin(const std::filesystem::path& path, const std::string& words,
                                         std::chrono::milliseconds patience) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return store::io_error(path.parent_path(), "made", error.value());
  PACELINE_ASSIGN_OR_RETURN(auto file, store::lock_file(path, patience));
  if (!file)
    return absl::AlreadyExistsError(
        fmt::format("{}: other tasks with the same number run in this folder; start these in another one",
                    path.string()));
  if (::ftruncate(file->get(), 0) != 0) return store::io_error(path, "written", errno);
  TaskLead lead(path, *std::move(file));
  const std::string line = words + "\n";
  PACELINE_RETURN_IF_ERROR(store::write_all(lead.file_, path, line.data(), line.size()));
  return lead;
}

TaskLead::~TaskLead() {
  if (!file_.valid()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

absl::Status TaskLead::say(const std::string& job_file) {
  const std::string line = job_file + "\n";
  return store::write_all(file_, path_, line.data(), line.size());
}

bool TaskFollower::leads() const { return file_.valid() && is_locked(file_); }

absl::StatusOr<std::optional<std::string>> TaskFollower::look() {
  if (!file_.valid()) {
    FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.valid() || !is_locked(file)) return std::nullopt;
    file_ = std::move(file);
  }
  // Asked before it is read: the first task says its last word before it ends.
  const bool here = is_locked(file_);
  std::string text(kMostBytes, '\0');
  const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
  if (got < 0) return store::io_error(path_, "read", errno);
  text.resize(static_cast<std::size_t>(got));
  const auto [words, job_file] = two_lines(text);
  if (words && *words != words_)
    return absl::InvalidArgumentError("this task was started with other words than the first one");
  if (job_file) return job_file;
  if (here) return std::nullopt;
  return absl::UnavailableError("the first task ended before its run began; it says why");
}

}  // namespace paceline::launch
