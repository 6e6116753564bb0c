#include "paceline/records/store/line_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

// Nothing if the file is no regular file.
std::optional<std::int64_t> size_of(const FileDescriptor& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  return about.st_size;
}

// The end of the last whole line before `size`.
absl::StatusOr<std::int64_t> end_of_lines(const FileDescriptor& file, const fs::path& path,
                                          std::int64_t size) {
  std::array<char, 4096> block;
  while (size > 0) {
    const std::int64_t count = std::min<std::int64_t>(size, block.size());
    const auto want = static_cast<std::size_t>(count);
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got, read_at(file, path, size - count, block.data(), want));
    const std::size_t found = std::string_view(block.data(), got).rfind('\n');
    if (found != std::string_view::npos) return size - count + static_cast<std::int64_t>(found) + 1;
    size -= count;
  }
  return 0;
}

}  // namespace

absl::StatusOr<LineFile> LineFile::open(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.valid()) return io_error(path, "written", errno);
  // A pipe that nobody reads would hang the process one day.
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return io_error(path, "written", errno);
  if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) return not_regular(path);
  LineFile lines(path, std::move(file));
  PACELINE_RETURN_IF_ERROR(lines.cut_torn_end());
  return lines;
}

absl::Status LineFile::cut_torn_end() {
  const std::optional<std::int64_t> size = size_of(file_);
  if (!size) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t end, end_of_lines(file_, path_, *size));
  if (end != *size && ::ftruncate(file_.get(), end) != 0) return io_error(path_, "written", errno);
  return absl::OkStatus();
}

absl::Status LineFile::append_line(const std::string& line) {
  if (line.find('\n') != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format("{}: a line may not hold a line break", path_.string()));
  }
  const std::optional<std::int64_t> before = size_of(file_);
  const std::string whole = line + '\n';
  absl::Status written = write_all(file_, path_, whole.data(), whole.size());
  if (!written.ok() && before && ::ftruncate(file_.get(), *before) != 0)
    return io_error(path_, "written", errno);
  return written;
}

}  // namespace paceline::store
