#include "paceline/computing/data/npy_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::data {

namespace {

absl::Status about(const std::string& path, const absl::Status& status) {
  return {status.code(), fmt::format("{} {}", path, std::string(status.message()))};
}

absl::Status cannot_read(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(
        fmt::format("{}: no such file; write it with numpy.save (docs/job.md has an example)", path));
  }
  return absl::UnavailableError(fmt::format("{}: cannot be read: {}; check the path and its permissions",
                                            path, std::generic_category().message(error)));
}

}  // namespace

NpyFile::Stamp NpyFile::stamp_of(const FileDescriptor& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return {-1, 0, 0};
  return {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
}

absl::StatusOr<NpyFile> NpyFile::open(const std::filesystem::path& path) {
  NpyFile npy;
  npy.path_ = path.string();
  // O_NONBLOCK: the open of a pipe must not wait for its writer.
  npy.file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!npy.file_.valid()) return cannot_read(npy.path_, errno);
  struct stat kind {};
  if (::fstat(npy.file_.get(), &kind) != 0) return cannot_read(npy.path_, errno);
  if (!S_ISREG(kind.st_mode))
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file; name one", npy.path_));
  npy.stamp_ = stamp_of(npy.file_);
  if (npy.stamp_.size <= 0)
    return absl::DataLossError(fmt::format("{} is empty; write it with numpy.save", npy.path_));
  const auto size = static_cast<std::size_t>(npy.stamp_.size);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, npy.file_.get(), 0);
  if (mapped == MAP_FAILED) return cannot_read(npy.path_, errno);
  npy.mapped_ = static_cast<const std::byte*>(mapped);
  auto header =
      parse_npy_header({reinterpret_cast<const char*>(npy.mapped_), std::min(size, kMostNpyHeader)});
  if (!header.ok()) return about(npy.path_, header.status());
  npy.header_ = *std::move(header);
  const std::int64_t there = npy.stamp_.size - npy.header_.data_begin;
  if (there != npy.bytes()) {
    return absl::DataLossError(
        fmt::format("{} has {} bytes of values, but its header promises {}; save the array again", npy.path_,
                    there, npy.bytes()));
  }
  return npy;
}

NpyFile::NpyFile(NpyFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      stamp_(other.stamp_),
      mapped_(std::exchange(other.mapped_, nullptr)),
      header_(std::move(other.header_)) {}

NpyFile::~NpyFile() {
  if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), static_cast<std::size_t>(stamp_.size));
}

absl::Status NpyFile::check_unchanged() const {
  if (stamp_of(file_) == stamp_) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} was written to while it was in use; write another file and rename it, and train again", path_));
}

}  // namespace paceline::data
