#include "paceline/computing/data/tar_gz.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <zlib.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/data/cannot_write.h"

namespace paceline::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;  // largest file in an archive

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// A header of the ustar format.
struct Entry {
  std::string name;  // without folders
  std::int64_t bytes = 0;
  bool regular = false;
};

class Archive {
 public:
  explicit Archive(const fs::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {}

  // False: the archive ends.
  absl::StatusOr<bool> next(Entry& entry) {
    if (file_ == nullptr) return damaged("cannot be opened");
    Block header;
    PACELINE_RETURN_IF_ERROR(read(header.data(), header.size()));
    if (std::all_of(header.begin(), header.end(), [](char byte) { return byte == 0; })) return false;
    if (number(header, 148, 8) != checksum(header)) return damaged("a header's sum is wrong");
    const auto bytes = number(header, 124, 12);
    if (bytes < 0 || bytes > kMostBytes) return damaged("a file's size makes no sense");
    const std::string name(header.data(), strnlen(header.data(), 100));
    entry = {fs::path(name).filename().string(), bytes, header[156] == '0' || header[156] == 0};
    return true;
  }

  // Copies the bytes of the latest entry to `out`, if that is not null.
  absl::Status take(const Entry& entry, std::ostream* out) {
    std::int64_t left = (entry.bytes + kBlock - 1) / kBlock * kBlock;
    std::int64_t wanted = entry.bytes;
    std::array<char, 128 * kBlock> bytes;
    while (left > 0) {
      const std::int64_t some = std::min<std::int64_t>(left, bytes.size());
      PACELINE_RETURN_IF_ERROR(read(bytes.data(), static_cast<std::size_t>(some)));
      if (out != nullptr) out->write(bytes.data(), std::min(some, wanted));
      wanted -= std::min(some, wanted);
      left -= some;
    }
    return absl::OkStatus();
  }

  absl::Status damaged(const char* how) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: no whole .tar.gz archive ({}); fetch it again", path_.string(), how));
  }

 private:
  using Block = std::array<char, kBlock>;

  absl::Status read(char* out, std::size_t bytes) {
    if (gzread(file_.get(), out, static_cast<unsigned>(bytes)) == static_cast<int>(bytes))
      return absl::OkStatus();
    return damaged("cut short");
  }

  // The value of octal digits; -1 if there is another character.
  static std::int64_t number(const Block& header, std::size_t at, std::size_t digits) {
    std::int64_t value = 0;
    for (std::size_t i = at; i < at + digits && header[i] != 0 && header[i] != ' '; ++i) {
      if (header[i] < '0' || header[i] > '7') return -1;
      value = value * 8 + (header[i] - '0');
    }
    return value;
  }

  // The sum of all bytes, with its own field taken as blanks.
  static std::int64_t checksum(const Block& header) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i)
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
    return sum;
  }

  fs::path path_;
  std::unique_ptr<gzFile_s, CloseGzip> file_;
};

absl::Status write_entry(Archive& archive, const Entry& entry, const fs::path& path) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  PACELINE_RETURN_IF_ERROR(archive.take(entry, &out));
  out.close();
  if (out) return absl::OkStatus();
  return cannot_write(path, errno);
}

}  // namespace

absl::Status unpack_tar_gz(const fs::path& path, const std::vector<std::string>& names,
                           const fs::path& directory) {
  Archive archive(path);
  std::set<std::string> missing(names.begin(), names.end());
  Entry entry;
  while (!missing.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const bool more, archive.next(entry));
    if (!more) break;
    if (entry.regular && missing.erase(entry.name) > 0) {
      PACELINE_RETURN_IF_ERROR(write_entry(archive, entry, directory / entry.name));
    } else {
      PACELINE_RETURN_IF_ERROR(archive.take(entry, nullptr));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is not in this archive", path.string(), *missing.begin()));
}

}  // namespace paceline::data
