#include "paceline/computing/train/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status unreadable(const fs::path& path, int error) {
  return absl::UnavailableError(fmt::format("{}: cannot be read: {}; check the path and its permissions",
                                            path.string(), std::generic_category().message(error)));
}

template <class Iterator>
absl::StatusOr<std::vector<fs::path>> regular_files(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (Iterator entry(directory, error); !error && entry != Iterator(); entry.increment(error)) {
    std::error_code dangling;  // a link to nothing is no file, and no error either
    if (entry->is_regular_file(dangling)) files.push_back(entry->path());
  }
  if (error) return unreadable(directory, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::Status append_file(const fs::path& path, std::int64_t limit, Bytes& bytes) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return absl::NotFoundError(fmt::format("{}: no such file", path.string()));
  if (!fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file; name one", path.string()));
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return unreadable(path, errno);
  while (static_cast<std::int64_t>(bytes.size()) < limit) {
    const std::size_t old_size = bytes.size();
    const std::size_t want = std::min(kReadAtOnce, static_cast<std::size_t>(limit) - old_size);
    bytes.resize(old_size + want);
    const std::size_t got = std::fread(bytes.data() + old_size, 1, want, file.get());
    bytes.resize(old_size + got);
    if (got == want) continue;
    if (std::ferror(file.get()) != 0) return unreadable(path, errno);
    break;
  }
  return absl::OkStatus();
}

absl::Status require_directory(const fs::path& path, const char* holding, const char* set) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  return absl::NotFoundError(fmt::format(
      "{}: no such directory; name in data.source the one that holds {}{}", path.string(), holding,
      set == nullptr ? "" : fmt::format(", or fetch it: paceline data {} {}", set, path.string())));
}

absl::StatusOr<std::vector<fs::path>> list_files(const fs::path& directory, Depth depth) {
  if (depth == Depth::kTop) return regular_files<fs::directory_iterator>(directory);
  return regular_files<fs::recursive_directory_iterator>(directory);
}

}  // namespace paceline::train
