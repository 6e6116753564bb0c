// PNG and JPEG files that libpng and libjpeg write here, whole and damaged.
#include "paceline/computing/data/image_file.h"

#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>

namespace paceline::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels png_of(int width, int height, std::uint32_t format, const Pixels& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t bytes = 0;
  EXPECT_TRUE(png_image_write_get_memory_size(image, bytes, 0, pixels.data(), 0, nullptr));
  Pixels out(bytes);
  EXPECT_TRUE(png_image_write_to_memory(&image, out.data(), &bytes, 0, pixels.data(), 0, nullptr));
  out.resize(bytes);
  return out;
}

Pixels jpeg_of(int width, int height, int components, Pixels pixels) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() + static_cast<int>(jpeg.next_scanline) * width * components;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  Pixels out(memory, memory + bytes);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return out;
}

absl::StatusOr<Pixels> decoded(const Pixels& file, int planes) {
  const auto header = read_image_header(file);
  if (!header.ok()) return header.status();
  Pixels out(static_cast<std::size_t>(header->width * header->height * planes));
  const absl::Status status = decode_image(file, *header, planes, out);
  if (!status.ok()) return status;
  return out;
}

void expect_refused(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
}

TEST(ImageFile, AGreyPng) {
  const Pixels pixels = {0, 50, 100, 150, 200, 250};
  const Pixels file = png_of(3, 2, PNG_FORMAT_GRAY, pixels);
  EXPECT_EQ(read_image_header(file).value(), (ImageHeader{3, 2, false}));
  EXPECT_EQ(decoded(file, 1).value(), pixels);
  const Pixels thrice = {0, 50, 100, 150, 200, 250, 0, 50, 100, 150, 200, 250, 0, 50, 100, 150, 200, 250};
  EXPECT_EQ(decoded(file, 3).value(), thrice);
}

TEST(ImageFile, AColouredPngComesAsPlanes) {
  const Pixels file = png_of(2, 1, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read_image_header(file).value(), (ImageHeader{2, 1, true}));
  EXPECT_EQ(decoded(file, 3).value(), (Pixels{1, 4, 2, 5, 3, 6}));
}

TEST(ImageFile, MakesTransparentPixelsBlack) {
  const Pixels file = png_of(2, 1, PNG_FORMAT_RGBA, {9, 9, 9, 0, 4, 5, 6, 255});
  EXPECT_EQ(decoded(file, 3).value(), (Pixels{0, 4, 0, 5, 0, 6}));
}

TEST(ImageFile, Jpegs) {
  const Pixels grey = jpeg_of(8, 8, 1, Pixels(64, 77));
  EXPECT_EQ(read_image_header(grey).value(), (ImageHeader{8, 8, false}));
  EXPECT_EQ(decoded(grey, 1).value(), Pixels(64, 77));
  Pixels red(3 * 64, 0);
  for (std::size_t i = 0; i < red.size(); i += 3) red[i] = 255;
  const Pixels coloured = jpeg_of(8, 8, 3, red);
  EXPECT_EQ(read_image_header(coloured).value(), (ImageHeader{8, 8, true}));
  const Pixels planes = decoded(coloured, 3).value();
  EXPECT_GT(planes[0], 250);
  EXPECT_LT(planes[64], 5);
  EXPECT_LT(planes[128], 5);
}

TEST(ImageFile, RefusesAFileThatIsNoImage) {
  for (const std::string& text : {std::string(), std::string("\x89PNG"), std::string("\xFF\xD8\xFF"),
                                  std::string("GIF89a and so on"), std::string(1000, '\0')})
    expect_refused(read_image_header(Pixels(text.begin(), text.end())).status());
}

TEST(ImageFile, EveryTruncationIsRefused) {
  Pixels noise(3 * 16 * 16);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * 7919 >> 3);
  for (const Pixels& whole : {png_of(16, 16, PNG_FORMAT_RGB, noise), jpeg_of(16, 16, 3, noise)}) {
    ASSERT_TRUE(decoded(whole, 3).ok());
    // The last bytes of a PNG are an empty block that says that it ends.
    for (std::size_t size = 0; size + 13 < whole.size(); ++size)
      expect_refused(
          decoded(Pixels(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 3).status());
  }
}

TEST(ImageFile, ATinyFileThatClaimsToBeHugeIsRefused) {
  Pixels file = png_of(1, 1, PNG_FORMAT_GRAY, {0});
  file[16] = 0x7F;  // the width's first byte
  expect_refused(read_image_header(file).status());
  Pixels jpeg = jpeg_of(8, 8, 1, Pixels(64, 1));
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) jpeg[i + 5] = jpeg[i + 7] = 0xFF;  // height and width
  }
  expect_refused(read_image_header(jpeg).status());
}

}  // namespace
}  // namespace paceline::data
