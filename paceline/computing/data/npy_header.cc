#include "paceline/computing/data/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::data {

namespace {

struct TypeRow {
  NpyType type;
  std::string_view descr;
  const char* name;
  std::int64_t bytes;
};
constexpr std::array<TypeRow, 10> kTypes = {{
    {NpyType::kFloat32, "<f4", "float32", 4},
    {NpyType::kFloat64, "<f8", "float64", 8},
    {NpyType::kUint8, "|u1", "uint8", 1},
    {NpyType::kUint16, "<u2", "uint16", 2},
    {NpyType::kUint32, "<u4", "uint32", 4},
    {NpyType::kUint64, "<u8", "uint64", 8},
    {NpyType::kInt8, "|i1", "int8", 1},
    {NpyType::kInt16, "<i2", "int16", 2},
    {NpyType::kInt32, "<i4", "int32", 4},
    {NpyType::kInt64, "<i8", "int64", 8},
}};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostExtents = 32;  // NumPy's own limit
constexpr std::size_t kMostText = 64;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

const TypeRow& row_of(NpyType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& row) { return row.type == type; });
}

absl::Status damaged_npy(std::string_view what) {
  return absl::DataLossError(fmt::format("its header is damaged: {}; save the array again", what));
}

// The dictionary, token by token.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  // A text in quotes of either kind, without escapes: no name of NumPy's has any.
  std::optional<std::string_view> text() {
    skip_spaces();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos || end > kMostText) return std::nullopt;
    const std::string_view inner = text_.substr(1, end - 1);
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
    if (!std::all_of(inner.begin(), inner.end(), plain)) return std::nullopt;
    text_.remove_prefix(end + 1);
    return inner;
  }

  std::optional<std::int64_t> number() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  bool at_end() {
    skip_spaces();
    return text_.empty();
  }

 private:
  void skip_spaces() {
    const std::size_t first = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(std::min(first, text_.size()));
  }

  std::string_view text_;
};

// The entries of the dictionary so far.
struct Said {
  std::optional<NpyType> type;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

absl::Status read_type(Tokens& tokens, Said& said) {
  if (tokens.take("["))
    return absl::UnimplementedError("has records of several fields; save each field as an array of its own");
  const auto descr = tokens.text();
  if (!descr) return damaged_npy("'descr' is not the name of a type");
  const auto row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& one) { return one.descr == *descr; });
  if (row == kTypes.end()) {
    return absl::UnimplementedError(fmt::format(
        "has values of type '{}'; save float32, float64, uint8 or another integer type, for example "
        "x.astype(\"<f4\")",
        *descr));
  }
  said.type = row->type;
  return absl::OkStatus();
}

absl::Status read_order(Tokens& tokens, Said& said) {
  if (tokens.take("True")) {
    said.fortran = true;
  } else if (tokens.take("False")) {
    said.fortran = false;
  } else {
    return damaged_npy("'fortran_order' is neither True nor False");
  }
  return absl::OkStatus();
}

absl::Status read_shape(Tokens& tokens, Said& said) {
  if (!tokens.take("(")) return damaged_npy("'shape' is not a tuple");
  std::vector<std::int64_t> shape;
  while (!tokens.take(")")) {
    const auto extent = tokens.number();
    if (!extent) return damaged_npy("'shape' has something else than whole numbers");
    if (shape.size() == kMostExtents) return damaged_npy("'shape' has more than 32 dimensions");
    shape.push_back(*extent);
    if (tokens.take(",")) continue;
    // Python reads (3) as a number.
    if (shape.size() == 1 || !tokens.take(")")) return damaged_npy("'shape' is not a tuple");
    break;
  }
  said.shape = std::move(shape);
  return absl::OkStatus();
}

absl::Status read_entry(Tokens& tokens, Said& said) {
  const auto key = tokens.text();
  if (!key || !tokens.take(":")) return damaged_npy("it is not a dictionary");
  if (*key == "descr" && !said.type) return read_type(tokens, said);
  if (*key == "fortran_order" && !said.fortran) return read_order(tokens, said);
  if (*key == "shape" && !said.shape) return read_shape(tokens, said);
  return damaged_npy(fmt::format("'{}' is in it twice or does not belong there", *key));
}

absl::StatusOr<Said> read_dictionary(std::string_view text) {
  Tokens tokens(text);
  Said said;
  if (!tokens.take("{")) return damaged_npy("it is not a dictionary");
  while (!tokens.take("}")) {
    PACELINE_RETURN_IF_ERROR(read_entry(tokens, said));
    if (tokens.take(",")) continue;
    if (!tokens.take("}")) return damaged_npy("it is not a dictionary");
    break;
  }
  if (!tokens.at_end()) return damaged_npy("there is something after its dictionary");
  if (!said.type || !said.fortran || !said.shape)
    return damaged_npy("it lacks 'descr', 'fortran_order' or 'shape'");
  return said;
}

// The number of values; nothing if no file can hold as many bytes.
std::optional<std::int64_t> values_of(const std::vector<std::int64_t>& shape, std::int64_t bytes_each) {
  // The zeros come first, because beside a 0 any extent would do.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t values = 1;
  for (const std::int64_t extent : shape) {
    if (values > kMostBytes / bytes_each / extent) return std::nullopt;
    values *= extent;
  }
  return values;
}

std::size_t little_endian(std::string_view bytes) {
  std::size_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

struct Place {
  std::size_t begin;  // start of the dictionary
  std::size_t end;
};

absl::StatusOr<Place> find_dictionary(std::string_view start) {
  if (!start.starts_with(kMagic)) {
    return absl::DataLossError("is not an NPY file; write it with numpy.save");
  }
  if (start.size() < kMagic.size() + 2) return damaged_npy("the file ends in it");
  const auto major = static_cast<unsigned char>(start[kMagic.size()]);
  const auto minor = static_cast<unsigned char>(start[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::UnimplementedError(fmt::format(
        "has version {}.{} of the NPY format, but 1.0, 2.0 and 3.0 are known; save it with numpy.save", major,
        minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = kMagic.size() + 2 + length_bytes;
  if (start.size() < begin) return damaged_npy("the file ends in it");
  const std::size_t length = little_endian(start.substr(begin - length_bytes, length_bytes));
  if (length > kMostNpyHeader - begin)
    return damaged_npy(fmt::format("it says that it has {} bytes", length));
  if (length > start.size() - begin) return damaged_npy("the file ends in it");
  return Place{begin, begin + length};
}

}  // namespace

std::int64_t bytes_of(NpyType type) { return row_of(type).bytes; }
bool is_integer(NpyType type) { return type != NpyType::kFloat32 && type != NpyType::kFloat64; }
const char* name_of(NpyType type) { return row_of(type).name; }

absl::StatusOr<NpyHeader> parse_npy_header(std::string_view start) {
  PACELINE_ASSIGN_OR_RETURN(const Place place, find_dictionary(start));
  PACELINE_ASSIGN_OR_RETURN(const Said said,
                            read_dictionary(start.substr(place.begin, place.end - place.begin)));
  // With one dimension both orders are the same.
  if (*said.fortran && said.shape->size() > 1) {
    return absl::UnimplementedError("has its values in Fortran order; save numpy.ascontiguousarray(…) of it");
  }
  const auto values = values_of(*said.shape, bytes_of(*said.type));
  if (!values) return damaged_npy("'shape' holds more values than any file");
  return NpyHeader{*said.type, *said.shape, *values, static_cast<std::int64_t>(place.end)};
}

}  // namespace paceline::data
