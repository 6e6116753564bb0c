// Any bytes as the header of a safetensors file: tensors that fill the data and are the same when written
// again, or one line that says what is wrong.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/records/store/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline::store;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto header = parse_header(text);
  if (!header.ok()) {
    paceline::testing::check_one_line(header.status());
    return 0;
  }
  std::int64_t end = 0;
  for (const TensorEntry& tensor : header->tensors) {
    std::int64_t length = paceline::ps::bytes_of(tensor.dtype);
    for (const std::int64_t side : tensor.shape) length *= side;
    PACELINE_CHECK(tensor.begin == end && tensor.end - tensor.begin == length, "{} from {} to {}",
                   tensor.name, tensor.begin, tensor.end);
    end = tensor.end;
  }
  const auto written = to_text(*header);
  PACELINE_CHECK(written.ok(), "a header that cannot be written again");
  const auto again = parse_header(*written);
  PACELINE_CHECK(again.ok() && again->metadata == header->metadata &&
                     std::equal(again->tensors.begin(), again->tensors.end(), header->tensors.begin(),
                                header->tensors.end(),
                                [](const TensorEntry& one, const TensorEntry& other) {
                                  return one.name == other.name && one.dtype == other.dtype &&
                                         one.begin == other.begin;
                                }),
                 "another header when written again");
  return 0;
}
