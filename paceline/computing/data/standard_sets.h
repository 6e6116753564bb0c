// The standard data sets that `paceline data` puts in place: where they are published, their checksums, and
// how they come into a folder from files at hand. No network is used here: `paceline data` fetches.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::data {

// One file as it is published.
struct PublishedFile {
  std::string name;
  std::string sha256;  // in hexadecimal
  // The files wanted from a .tar.gz archive. Empty: the file itself.
  std::vector<std::string> unpack{};
};

struct StandardSet {
  std::string name;    // the name in data.source: "mnist"
  std::string folder;  // the address at which its files are published; it ends with a slash
  std::vector<PublishedFile> files;
};

// mnist, cifar10 and cifar100.
std::span<const StandardSet> standard_sets();

// Whether `path` is this file. Errors: DataLoss, with both sums; NotFound or Unavailable.
absl::Status check_sum(const PublishedFile& file, const std::filesystem::path& path);

// A folder inside another one, in which files are made complete before they are moved there. It goes with
// everything in it.
class Staging {
 public:
  // Makes `directory` if it is missing, and removes it again with the staging unless finish() said OK.
  // Errors: Unavailable.
  static absl::StatusOr<Staging> in(const std::filesystem::path& directory);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  ~Staging();

  const std::filesystem::path& path() const { return path_; }
  // Puts the contents of `file`, which is at `source`, into the folder. Errors: as check_sum() and
  // unpack_tar_gz(); Unavailable.
  absl::Status add(const PublishedFile& file, const std::filesystem::path& source);
  // A file of this name was written to path().
  void add_written(const std::string& name) { added_.push_back(name); }
  // Checks, before `file` is fetched, whether another file has its name in the folder, as far as that is
  // known by then. Errors: AlreadyExists.
  absl::Status check_place(const PublishedFile& file) const;
  // Moves all added files to the folder. A file that is there already with the same bytes stays. Errors:
  // AlreadyExists if it has other bytes, and nothing was moved; Unavailable.
  absl::Status finish();

 private:
  Staging(std::filesystem::path directory, bool made);

  std::filesystem::path directory_;
  std::filesystem::path path_;
  bool made_ = false;  // this object made `directory_`
  std::vector<std::string> added_;
};

}  // namespace paceline::data
