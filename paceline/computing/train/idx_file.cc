#include "paceline/computing/train/idx_file.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <zlib.h>

#include "paceline/base/status_macros.h"

namespace paceline::train {

namespace {

constexpr std::int64_t kUnpackedAtOnce = std::int64_t{1} << 20;
constexpr std::int64_t kUnsignedByte = 0x08;  // the element type, third byte of the magic number

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using Gzip = std::unique_ptr<gzFile_s, CloseGzip>;

absl::Status bad(const std::filesystem::path& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}; fetch the file again", path.string(), what));
}

// Grows by what has really been read, so a header that promises too much costs nothing.
absl::StatusOr<Bytes> read_exactly(gzFile_s* file, const std::filesystem::path& path, std::int64_t want) {
  Bytes bytes;
  while (static_cast<std::int64_t>(bytes.size()) < want) {
    const std::size_t old_size = bytes.size();
    const std::int64_t ask = std::min(kUnpackedAtOnce, want - static_cast<std::int64_t>(old_size));
    bytes.resize(old_size + static_cast<std::size_t>(ask));
    const int got = gzread(file, bytes.data() + old_size, static_cast<unsigned>(ask));
    if (got < 0) return bad(path, "cannot be unpacked: it is damaged");
    bytes.resize(old_size + static_cast<std::size_t>(got));
    if (got == 0)
      return bad(path, fmt::format("ends {} bytes short of the {} due",
                                   want - static_cast<std::int64_t>(old_size), want));
  }
  return bytes;
}

std::int64_t big_endian(const std::uint8_t* at) {
  return (std::int64_t{at[0]} << 24) | (std::int64_t{at[1]} << 16) | (std::int64_t{at[2]} << 8) | at[3];
}

absl::StatusOr<std::vector<std::int64_t>> read_extents(gzFile_s* file, const std::filesystem::path& path,
                                                       int dimensions) {
  PACELINE_ASSIGN_OR_RETURN(const Bytes header, read_exactly(file, path, 4 + 4 * dimensions));
  const std::int64_t magic = big_endian(header.data());
  const std::int64_t expected = (kUnsignedByte << 8) | dimensions;
  if (magic != expected) {
    return bad(path,
               fmt::format("magic number {:#010x}, but an IDX file of {}-dimensional bytes has {:#010x}",
                           magic, dimensions, expected));
  }
  std::vector<std::int64_t> extents;
  for (int i = 1; i <= dimensions; ++i) extents.push_back(big_endian(header.data() + 4 * i));
  return extents;
}

// False when the product passes 2^62: no file holds that.
bool multiply(const std::vector<std::int64_t>& extents, std::int64_t& product) {
  product = 1;
  for (std::int64_t extent : extents) {
    if (extent > 0 && product > (std::int64_t{1} << 62) / extent) return false;
    product *= extent;
  }
  return true;
}

}  // namespace

absl::StatusOr<IdxFile> read_idx(const std::filesystem::path& path, int dimensions) {
  const Gzip file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return bad(path, "cannot be opened: check its permissions");
  IdxFile idx;
  PACELINE_ASSIGN_OR_RETURN(idx.extents, read_extents(file.get(), path, dimensions));
  std::int64_t size = 0;
  if (!multiply(idx.extents, size)) return bad(path, "its header promises more bytes than any file holds");
  PACELINE_ASSIGN_OR_RETURN(idx.bytes, read_exactly(file.get(), path, size));
  std::uint8_t more = 0;
  const int left = gzread(file.get(), &more, 1);
  if (left < 0) return bad(path, "cannot be unpacked: its end is damaged");
  if (left > 0) return bad(path, fmt::format("goes on after the {} bytes its header promises", size));
  return idx;
}

}  // namespace paceline::train
