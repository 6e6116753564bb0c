#include "paceline/tools/cli/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/records/store/files.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // Linux follows as many

enum class OutputKind {
  kStandardOutput,  // "-", or a name of its own, /dev/stdout
  kFile,            // regular, or not there yet
  kPipe,
  kDevice,
};

absl::StatusOr<OutputKind> kind_of_output(const std::string& name) {
  if (name == "-") return OutputKind::kStandardOutput;
  struct stat there {};
  if (::stat(name.c_str(), &there) != 0) {
    if (errno == ENOENT) return OutputKind::kFile;
    return store::io_error(name, "written", errno);
  }
  if (S_ISDIR(there.st_mode))
    return absl::InvalidArgumentError(fmt::format("{}: is a folder; name a file in it", name));
  struct stat own {};
  const bool same =
      ::fstat(STDOUT_FILENO, &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  if (same) return OutputKind::kStandardOutput;
  if (S_ISREG(there.st_mode)) return OutputKind::kFile;
  return S_ISFIFO(there.st_mode) ? OutputKind::kPipe : OutputKind::kDevice;
}

}  // namespace

absl::StatusOr<fs::path> behind_links(const std::string& name) {
  fs::path path = name;
  std::error_code error;
  for (int links = 0; links < kMostLinks; ++links) {
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return store::io_error(path, "read", error.value());
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return store::io_error(name, "written", ELOOP);
}

absl::Status check_output(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const OutputKind kind, kind_of_output(name));
  if (kind == OutputKind::kStandardOutput) return absl::OkStatus();
  if (kind == OutputKind::kFile) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path path, behind_links(name));
    return store::AtomicFile::create(path).status();
  }
  // A pipe that is opened and closed again would be at its end for the one who reads it.
  if (kind == OutputKind::kPipe) {
    if (::access(name.c_str(), W_OK) != 0) return store::io_error(name, "written", errno);
    return absl::OkStatus();
  }
  const FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) return store::io_error(name, "written", errno);
  // A device that takes nothing says so even of nothing.
  if (::write(file.get(), "", 0) < 0) return store::io_error(name, "written", errno);
  return absl::OkStatus();
}

absl::Status write_output(const std::string& name, const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const OutputKind kind, kind_of_output(name));
  if (kind == OutputKind::kStandardOutput) {
    launch::print(stdout, text);
    return absl::OkStatus();
  }
  if (kind == OutputKind::kFile) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path path, behind_links(name));
    return store::atomic_write(path, text);
  }
  const FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return store::io_error(name, "written", errno);
  return store::write_all(file, name, text.data(), text.size());
}

absl::Status show_with_json(const std::string& table, const std::string& json_name, const std::string& json) {
  if (json_name != "-") launch::print(stdout, table);
  return json_name.empty() ? absl::OkStatus() : write_output(json_name, json);
}

}  // namespace paceline::cli
