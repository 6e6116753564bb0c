// PNG and JPEG files as pixels. Nothing that a file says of itself is believed: it is decoded whole, or an
// error of one line says what is wrong with it. Bytes in, bytes out; the caller names the file.
#pragma once

#include <cstdint>
#include <span>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::data {

inline constexpr std::int64_t kMostImageSide = 4096;  // pixels

struct ImageHeader {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool colour = false;
  friend bool operator==(const ImageHeader&, const ImageHeader&) = default;
};

// Errors: InvalidArgument (neither PNG nor JPEG, damaged, or a side above kMostImageSide).
absl::StatusOr<ImageHeader> read_image_header(std::span<const std::uint8_t> file);

// Decodes to one byte a value: `planes` is 1 (grey) or 3 (red, green, blue), one plane after the other,
// width · height each. What is transparent lies on black. Requires: `out` has room for exactly that of
// `header`, which read_image_header() said of these bytes. Errors: InvalidArgument (damaged or cut short).
absl::Status decode_image(std::span<const std::uint8_t> file, const ImageHeader& header, int planes,
                          std::span<std::uint8_t> out);

}  // namespace paceline::data
