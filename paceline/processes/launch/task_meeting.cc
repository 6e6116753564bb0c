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

constexpr char kOver[] = "over", kFailed[] = "failed";
// A worker that has heard why the run failed ends within this time, and its error says more.
constexpr std::chrono::seconds kOwnErrorFirst{2};
constexpr std::chrono::seconds kPatience{10};

struct Lines {
  std::optional<std::string> words, job_file, last_word;
};

absl::StatusOr<Lines> whole_lines(const FileDescriptor& file, const std::filesystem::path& path) {
  std::string text(kMostBytes, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) return store::io_error(path, "read", errno);
  text.resize(static_cast<std::size_t>(got));
  Lines lines;
  std::size_t begin = 0;
  for (std::optional<std::string>* line : {&lines.words, &lines.job_file, &lines.last_word}) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    *line = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return lines;
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
  began_ = true;
  return store::write_all(file_, path_, line.data(), line.size());
}

absl::Status TaskLead::leave(bool well) {
  if (!began_) return absl::OkStatus();
  const std::string line = std::string(well ? kOver : kFailed) + "\n";
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
  PACELINE_ASSIGN_OR_RETURN(const Lines lines, whole_lines(file_, path_));
  if (lines.words && *lines.words != words_)
    return absl::InvalidArgumentError("this task was started with other words than the first one");
  if (lines.job_file) return lines.job_file;
  if (here) return std::nullopt;
  return absl::UnavailableError("the first task ended before its run began; it says why");
}

std::optional<bool> TaskFollower::ended_well() const {
  if (!file_.valid() || is_locked(file_)) return std::nullopt;
  const auto lines = whole_lines(file_, path_);
  if (!lines.ok() || !lines->last_word) return std::nullopt;
  return *lines->last_word == kOver;
}

FirstTaskWatch::Fate FirstTaskWatch::look(const TaskFollower& follower, SteadyTime now) {
  if (follower.leads()) seen_ = now;
  const std::optional<bool> well = follower.ended_well();
  if (well.value_or(false)) return Fate::kWell;
  if (now <= seen_ + (well ? kOwnErrorFirst : kPatience)) return Fate::kWell;
  return well ? Fate::kFailed : Fate::kLost;
}

}  // namespace paceline::launch
