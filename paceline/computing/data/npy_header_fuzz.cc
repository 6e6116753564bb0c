// Any bytes as the start of an NPY file: a header that keeps what npy_header.h promises and is the same when
// written again, or one line that says what is wrong.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/computing/data/npy_header.h"
#include "paceline/computing/data/testing/npy_header_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline::data;
  const auto header = parse_npy_header({reinterpret_cast<const char*>(bytes), size});
  if (!header.ok()) {
    paceline::testing::check_one_line(header.status());
    return 0;
  }
  PACELINE_CHECK(header->data_begin <= static_cast<std::int64_t>(size), "values begin at {} of {}",
                 header->data_begin, size);
  const bool none = std::find(header->shape.begin(), header->shape.end(), 0) != header->shape.end();
  std::int64_t values = none ? 0 : 1;
  for (const std::int64_t extent : header->shape) {
    PACELINE_CHECK(extent >= 0, "an extent of {}", extent);
    PACELINE_CHECK(none || !__builtin_mul_overflow(values, extent, &values), "more values than a file has");
  }
  PACELINE_CHECK(header->values == values, "{} values, not {}", header->values, values);
  PACELINE_CHECK(header->values <= (std::int64_t{1} << 62) / bytes_of(header->type), "{} values",
                 header->values);
  const auto again = parse_npy_header(npy_header_text(header->type, header->shape));
  PACELINE_CHECK(again.ok() && again->shape == header->shape && again->type == header->type,
                 "another header when written again");
  return 0;
}
