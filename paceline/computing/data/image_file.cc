#include "paceline/computing/data/image_file.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include "paceline/base/check.h"

namespace paceline::data {

namespace {

using Bytes = std::span<const std::uint8_t>;

bool begins_with(Bytes file, std::initializer_list<std::uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}
bool is_png(Bytes file) { return begins_with(file, {0x89, 'P', 'N', 'G'}); }
bool is_jpeg(Bytes file) { return begins_with(file, {0xFF, 0xD8, 0xFF}); }

absl::Status damaged(const char* kind, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("a damaged {} ({}); put a good one there", kind, why));
}

absl::StatusOr<ImageHeader> checked(ImageHeader header) {
  if (header.width >= 1 && header.height >= 1 && header.width <= kMostImageSide &&
      header.height <= kMostImageSide)
    return header;
  return absl::InvalidArgumentError(fmt::format("{} x {} pixels, but at most {} x {} are read; scale it down",
                                                header.width, header.height, kMostImageSide, kMostImageSide));
}

// Converts "rgbrgb" to planes.
void write_planes(const std::uint8_t* row, std::int64_t width, std::int64_t plane, int planes,
                  std::uint8_t* out) {
  for (int p = 0; p < planes; ++p) {
    for (std::int64_t x = 0; x < width; ++x) out[p * plane + x] = row[x * planes + p];
  }
}

class Png {
 public:
  Png() {
    image_ = {};
    image_.version = PNG_IMAGE_VERSION;
  }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  absl::StatusOr<ImageHeader> begin(Bytes file) {
    if (!png_image_begin_read_from_memory(&image_, file.data(), file.size()))
      return damaged("PNG", image_.message);
    return checked({image_.width, image_.height, (image_.format & PNG_FORMAT_FLAG_COLOR) != 0});
  }

  absl::Status decode(int planes, std::span<std::uint8_t> out) {
    image_.format = planes == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image_));
    const png_color black{0, 0, 0};
    if (!png_image_finish_read(&image_, &black, pixels.data(), 0, nullptr))
      return damaged("PNG", image_.message);
    const std::int64_t width = image_.width, height = image_.height;
    for (std::int64_t y = 0; y < height; ++y)
      write_planes(pixels.data() + y * width * planes, width, width * height, planes, out.data() + y * width);
    return absl::OkStatus();
  }

 private:
  png_image image_;
};

// libjpeg tells errors by a jump. Nothing between setjmp and the calls that may jump has a destructor.
class Jpeg {
 public:
  Jpeg() {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = [](j_common_ptr about) {
      auto* errors = reinterpret_cast<Errors*>(about->err);
      about->err->format_message(about, errors->text);
      std::longjmp(errors->back, 1);
    };
    // libjpeg warns when it makes up missing data. The result would not be the user's image, so a warning is
    // an error.
    errors_.base.emit_message = [](j_common_ptr about, int level) {
      if (level < 0) about->err->error_exit(about);
    };
    errors_.base.output_message = [](j_common_ptr) {};
  }
  ~Jpeg() {
    if (created_) jpeg_destroy_decompress(&jpeg_);
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  absl::StatusOr<ImageHeader> begin(Bytes file) {
    if (setjmp(errors_.back) != 0) return damaged("JPEG", errors_.text);
    jpeg_create_decompress(&jpeg_);
    created_ = true;
    jpeg_mem_src(&jpeg_, file.data(), file.size());
    jpeg_read_header(&jpeg_, TRUE);
    return checked({jpeg_.image_width, jpeg_.image_height, jpeg_.num_components != 1});
  }

  absl::Status decode(int planes, std::span<std::uint8_t> out) {
    row_.resize(static_cast<std::size_t>(jpeg_.image_width) * static_cast<std::size_t>(planes));
    if (setjmp(errors_.back) != 0) return damaged("JPEG", errors_.text);
    jpeg_.out_color_space = planes == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    const std::int64_t width = jpeg_.output_width, plane = width * jpeg_.output_height;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      std::uint8_t* begin = out.data() + width * jpeg_.output_scanline;
      JSAMPROW row = row_.data();
      jpeg_read_scanlines(&jpeg_, &row, 1);
      write_planes(row_.data(), width, plane, planes, begin);
    }
    jpeg_finish_decompress(&jpeg_);
    return absl::OkStatus();
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
    std::jmp_buf back;
    char text[JMSG_LENGTH_MAX] = "";
  };

  Errors errors_{};
  jpeg_decompress_struct jpeg_{};
  bool created_ = false;
  std::vector<std::uint8_t> row_;
};

absl::Status neither() {
  return absl::InvalidArgumentError("neither a PNG nor a JPEG file; convert it, or move it elsewhere");
}

template <class Reader>
absl::Status decode_with(Bytes file, const ImageHeader& header, int planes, std::span<std::uint8_t> out) {
  Reader reader;
  const auto again = reader.begin(file);
  if (!again.ok()) return again.status();
  PACELINE_CHECK(*again == header, "another header when read again");
  PACELINE_CHECK(static_cast<std::int64_t>(out.size()) == header.width * header.height * planes,
                 "{} bytes for {} x {} x {}", out.size(), header.width, header.height, planes);
  return reader.decode(planes, out);
}

}  // namespace

absl::StatusOr<ImageHeader> read_image_header(Bytes file) {
  if (is_png(file)) return Png().begin(file);
  if (is_jpeg(file)) return Jpeg().begin(file);
  return neither();
}

absl::Status decode_image(Bytes file, const ImageHeader& header, int planes, std::span<std::uint8_t> out) {
  if (is_png(file)) return decode_with<Png>(file, header, planes, out);
  if (is_jpeg(file)) return decode_with<Jpeg>(file, header, planes, out);
  return neither();
}

}  // namespace paceline::data
