#include "paceline/records/store/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_copy.h"
#include "paceline/records/store/lock_file.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestPart = 80;  // the longest part of a folder's name, which may have 255 bytes
constexpr std::int64_t kLongestPid = 32;
// A process that only checks whether the folder is free locks it for a moment, and the children of a process that was
// killed die a little later.
constexpr std::chrono::seconds kLockPatience{3};

std::string as_file_name(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  std::string name;
  bool replaced = false;  // the last character was
  for (const char c : text.substr(0, kLongestPart)) {
    const bool plain = kPlain.find(c) != std::string_view::npos;
    if (plain) name += c;
    if (!plain && !replaced) name += '-';
    replaced = !plain;
  }
  // A leading dot would hide the folder, and a leading dash look like an option.
  name.erase(0, std::min(name.find_first_not_of(".-"), name.size()));
  return name.empty() ? "run" : name;
}

std::string label_of(const std::string& name, const std::string& method,
                     std::chrono::system_clock::time_point now) {
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(now - second).count();
  return fmt::format("{}-{:%Y%m%dT%H%M%S}.{:03}Z-{}", as_file_name(name), fmt::gmtime(second), ms,
                     as_file_name(method));
}

// The newest time in the names of runs with this prefix.
std::optional<std::chrono::system_clock::time_point> newest_in(const fs::path& base,
                                                               const std::string& prefix) {
  std::optional<std::chrono::system_clock::time_point> newest;
  std::error_code error;
  for (auto one = fs::directory_iterator(base, error); !error && one != fs::directory_iterator();
       one.increment(error)) {
    const std::string name = one->path().filename().string();
    std::tm at{};
    int ms = 0, read = 0;
    if (!name.starts_with(prefix)) continue;
    const char* const rest = strptime(name.c_str() + prefix.size(), "%Y%m%dT%H%M%S", &at);
    if (rest == nullptr || std::sscanf(rest, ".%3dZ-%n", &ms, &read) != 1 || read == 0) continue;
    const auto time = std::chrono::system_clock::from_time_t(timegm(&at)) + std::chrono::milliseconds(ms);
    newest = std::max(newest.value_or(time), time);
  }
  return newest;
}

absl::Status make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? io_error(path, "made", error.value()) : absl::OkStatus();
}

// In a container of another host, or one with processes of its own, the number is that of another process.
bool has_open(int pid, const fs::path& file) {
  std::error_code error;
  for (auto one = fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error);
       !error && one != fs::directory_iterator(); one.increment(error)) {
    std::error_code other;  // descriptors may be closed meanwhile
    if (fs::equivalent(one->path(), file, other)) return true;
  }
  return false;
}

absl::Status in_use(const RunPaths& paths) {
  const auto text = read_file(paths.lock(), kLongestPid);
  int pid = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), pid);
  const bool here = pid > 0 && has_open(pid, paths.lock());
  const std::string who = here ? fmt::format("process {}", pid) : "another process";
  return absl::FailedPreconditionError(
      fmt::format("run folder {} is in use by {}; wait for it or choose another", paths.root.string(), who));
}

absl::StatusOr<FileDescriptor> take_lock(const RunPaths& paths) {
  PACELINE_ASSIGN_OR_RETURN(std::optional<FileDescriptor> held, lock_file(paths.lock(), kLockPatience));
  if (!held) return in_use(paths);
  FileDescriptor file = *std::move(held);
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0) return io_error(paths.lock(), "written", errno);
  PACELINE_RETURN_IF_ERROR(write_all(file, paths.lock(), pid.data(), pid.size()));
  return file;
}

// Another user's folder may hold links to files that are not that user's.
absl::Status expect_own_folders(const RunPaths& paths) {
  for (const fs::path& folder : {paths.checkpoints(), paths.logs(), paths.tensorboard()}) {
    std::error_code ignored;
    if (fs::is_symlink(fs::symlink_status(folder, ignored))) return io_error(folder, "used", ELOOP);
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> furnish(const RunPaths& paths, const std::string& job) {
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor lock, take_lock(paths));
  PACELINE_RETURN_IF_ERROR(make_directories(paths.checkpoints()));
  PACELINE_RETURN_IF_ERROR(make_directories(paths.logs()));
  // job.toml comes last: a folder with a job.toml is a run.
  PACELINE_RETURN_IF_ERROR(atomic_write(paths.job(), job));
  PACELINE_RETURN_IF_ERROR(sync_directory(paths.root.parent_path()));
  return lock;
}

}  // namespace

absl::StatusOr<RunPaths> find_run(const fs::path& root) {
  std::error_code error;
  // The folders of another user's runs may not be looked into, which does not mean that nothing is there.
  const auto closed = [&] { return error == std::errc::permission_denied; };
  if (fs::is_regular_file(root, error)) {
    return absl::InvalidArgumentError(fmt::format("{}: is a file; name the folder of a run", root.string()));
  }
  if (!fs::is_directory(root, error)) {
    if (closed()) return io_error(root, "read", EACCES);
    return absl::NotFoundError(fmt::format("{}: no such run folder; check the path", root.string()));
  }
  RunPaths paths{root};
  if (fs::is_regular_file(paths.job(), error)) return paths;
  if (closed()) return io_error(root, "read", EACCES);
  if (fs::is_regular_file(root / kComparisonFile, error)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: a comparison, not a run; name one of the runs in it (`paceline compare --resume` "
                    "takes the whole)",
                    root.string()));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{}: not a run folder: it has no job.toml; name one that 'paceline train' made", root.string()));
}

absl::StatusOr<RunFolder> RunFolder::create(const fs::path& base, const std::string& name,
                                            const std::string& method,
                                            std::chrono::system_clock::time_point now,
                                            const std::string& job) {
  PACELINE_RETURN_IF_ERROR(make_directories(base));
  // The clock may have been set back since.
  const auto newest = newest_in(base, as_file_name(name) + "-");
  if (newest && *newest > now) now = *newest + std::chrono::milliseconds(1);
  PACELINE_ASSIGN_OR_RETURN(const fs::path root, make_new_directory(base, label_of(name, method, now)));
  RunPaths paths{root};
  auto lock = furnish(paths, job);
  if (lock.ok()) return RunFolder(std::move(paths), *std::move(lock));
  std::error_code ignored;  // the first error is the one to tell
  fs::remove_all(root, ignored);
  return lock.status();
}

absl::StatusOr<RunFolder> RunFolder::resume(const fs::path& root) {
  PACELINE_ASSIGN_OR_RETURN(RunPaths paths, find_run(root));
  PACELINE_RETURN_IF_ERROR(expect_own_folders(paths));
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor lock, take_lock(paths));
  remove_unfinished_copies(paths.journal());
  return RunFolder(std::move(paths), std::move(lock));
}

}  // namespace paceline::store
