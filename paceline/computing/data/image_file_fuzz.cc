// Any bytes as an image: it is decoded whole, or one line says what is wrong.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/base/testing/one_line.h"
#include "paceline/computing/data/image_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline::data;
  const std::span<const std::uint8_t> file(bytes, size);
  const auto header = read_image_header(file);
  if (!header.ok()) {
    paceline::testing::check_one_line(header.status());
    return 0;
  }
  if (header->width * header->height > 1 << 18) return 0;  // a larger image would only take long
  const int planes = header->colour ? 3 : 1;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(header->width * header->height * planes));
  const absl::Status decoded = decode_image(file, *header, planes, pixels);
  if (!decoded.ok()) paceline::testing::check_one_line(decoded);
  return 0;
}
