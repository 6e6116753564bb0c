#include "paceline/computing/data/standard_sets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/data/sha256.h"
#include "paceline/computing/data/tar_gz.h"

namespace paceline::data {

namespace fs = std::filesystem;

std::span<const StandardSet> standard_sets() {
  static const std::vector<StandardSet> kSets = {
      {"mnist",
       "https://storage.googleapis.com/cvdf-datasets/mnist/",
       {{"train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz/",
       {{"cifar-10-binary.tar.gz",
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
         {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
          "test_batch.bin"}}}},
      {"cifar100",
       "https://www.cs.toronto.edu/~kriz/",
       {{"cifar-100-binary.tar.gz",
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
         {"train.bin", "test.bin"}}}},
  };
  return kSets;
}

absl::Status check_sum(const PublishedFile& file, const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string sum, sha256_of_file(path));
  if (sum == file.sha256) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: not {} as it was published: its SHA-256 is {}, not {}; fetch it again", path.string(),
                  file.name, sum, file.sha256));
}

namespace {

absl::Status cannot(const fs::path& path, const char* what, const std::error_code& error) {
  return absl::UnavailableError(fmt::format("{}: cannot be {}: {}", path.string(), what, error.message()));
}

absl::Status taken(const fs::path& path) {
  return absl::AlreadyExistsError(
      fmt::format("{}: another file has this name already, and it is kept; name another folder, or move that "
                  "file away",
                  path.string()));
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool same_bytes(const fs::path& one, const fs::path& other) {
  std::error_code error;
  if (!fs::is_regular_file(other, error) || fs::file_size(one, error) != fs::file_size(other, error))
    return false;
  std::ifstream a(one, std::ios::binary), b(other, std::ios::binary);
  return a && b &&
         std::equal(std::istreambuf_iterator<char>(a), {}, std::istreambuf_iterator<char>(b),
                    std::istreambuf_iterator<char>());
}

// Moves the file, but never over another file, even one that has come this moment. Some file systems have no
// such rename.
absl::Status place(const fs::path& from, const fs::path& to) {
  if (is_there(to)) return same_bytes(from, to) ? absl::OkStatus() : taken(to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return absl::OkStatus();
  if (errno == EEXIST) return taken(to);
  std::error_code error(errno, std::generic_category());
  if (errno == EINVAL || errno == ENOSYS) fs::rename(from, to, error);
  return error ? cannot(to, "written", error) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Staging> Staging::in(const fs::path& directory) {
  std::error_code error;
  const bool made = fs::create_directories(directory, error);
  if (error) return cannot(directory, "made a folder", error);
  Staging staging(directory, made);
  fs::remove_all(staging.path_, error);  // left by a process that was killed
  fs::create_directory(staging.path_, error);
  if (error) return cannot(staging.path_, "made a folder", error);
  return staging;
}

Staging::Staging(fs::path directory, bool made)
    : directory_(std::move(directory)), path_(directory_ / ".paceline-data.partial"), made_(made) {}

Staging::Staging(Staging&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::exchange(other.path_, {})),
      made_(std::exchange(other.made_, false)),
      added_(std::move(other.added_)) {}

Staging::~Staging() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (made_) fs::remove(directory_, ignored);  // only if it is empty
}

absl::Status Staging::check_place(const PublishedFile& file) const {
  const fs::path to = directory_ / file.name;
  if (!file.unpack.empty() || !is_there(to) || check_sum(file, to).ok()) return absl::OkStatus();
  return taken(to);
}

absl::Status Staging::add(const PublishedFile& file, const fs::path& source) {
  PACELINE_RETURN_IF_ERROR(check_sum(file, source));
  if (!file.unpack.empty()) {
    PACELINE_RETURN_IF_ERROR(unpack_tar_gz(source, file.unpack, path_));
    added_.insert(added_.end(), file.unpack.begin(), file.unpack.end());
    return absl::OkStatus();
  }
  std::error_code error;
  if (source != path_ / file.name) fs::copy_file(source, path_ / file.name, error);
  if (error) return cannot(path_ / file.name, "written", error);
  added_.push_back(file.name);
  return absl::OkStatus();
}

// A file with its final name is complete, even after a loss of power.
absl::Status Staging::finish() {
  const FileDescriptor staged(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!staged.valid() || ::syncfs(staged.get()) != 0)
    return cannot(path_, "written", std::error_code(errno, std::generic_category()));
  for (const std::string& name : added_) {
    const fs::path to = directory_ / name;
    if (is_there(to) && !same_bytes(path_ / name, to)) return taken(to);
  }
  for (const std::string& name : added_) PACELINE_RETURN_IF_ERROR(place(path_ / name, directory_ / name));
  return absl::OkStatus();
}

}  // namespace paceline::data
