#include "paceline/computing/data/idx_files.h"

#include <cerrno>
#include <cstdint>
#include <span>

#include <fmt/format.h>
#include <zlib.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/data/cannot_write.h"
#include "paceline/computing/data/digits.h"

namespace paceline::data {

namespace fs = std::filesystem;

namespace {

using IdxBytes = std::vector<std::uint8_t>;

// Numbers are big-endian.
void append_number(std::uint32_t number, IdxBytes& bytes) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
}

// The head of an IDX file: unsigned bytes, in this many dimensions, of these extents.
IdxBytes idx_head(std::initializer_list<int> extents) {
  IdxBytes bytes;
  append_number(0x0800 + static_cast<std::uint32_t>(extents.size()), bytes);
  for (const int extent : extents) append_number(static_cast<std::uint32_t>(extent), bytes);
  return bytes;
}

absl::Status write_gzip(const fs::path& path, const IdxBytes& bytes) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "wb1");
  const bool written = file != nullptr && gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
                                              static_cast<int>(bytes.size());
  const bool closed = file != nullptr && gzclose(file) == Z_OK;
  if (written && closed) return absl::OkStatus();
  return cannot_write(path, errno);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> write_digits(const fs::path& directory) {
  struct Half {
    const char* prefix;
    DigitsHalf half;
    int size;
  };
  std::vector<std::string> names;
  for (const Half& one :
       {Half{"train", DigitsHalf::kTrain, kDigitsToTrain}, Half{"t10k", DigitsHalf::kTest, kDigitsToTest}}) {
    IdxBytes images = idx_head({one.size, kDigitSide, kDigitSide});
    IdxBytes labels = idx_head({one.size});
    for (int index = 0; index < one.size; ++index) {
      const DrawnDigit drawn = draw_digit(one.half, index);
      images.insert(images.end(), drawn.pixels.begin(), drawn.pixels.end());
      labels.push_back(drawn.label);
    }
    names.push_back(fmt::format("{}-images-idx3-ubyte.gz", one.prefix));
    PACELINE_RETURN_IF_ERROR(write_gzip(directory / names.back(), images));
    names.push_back(fmt::format("{}-labels-idx1-ubyte.gz", one.prefix));
    PACELINE_RETURN_IF_ERROR(write_gzip(directory / names.back(), labels));
  }
  return names;
}

}  // namespace paceline::data
