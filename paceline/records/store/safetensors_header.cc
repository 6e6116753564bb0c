#include "paceline/records/store/safetensors_header.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

using nlohmann::json;

namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kHeaderDepth = 3;  // header, tensor, shape

template <class... Args>
absl::Status damaged(fmt::format_string<Args...> format, Args&&... args) {
  return absl::DataLossError("damaged header: " + fmt::format(format, std::forward<Args>(args)...));
}

absl::StatusOr<std::vector<std::int64_t>> whole_numbers(const json& object, const std::string& key) {
  PACELINE_ASSIGN_OR_RETURN(const json* list, member_of(object, key));
  if (!list->is_array()) return absl::DataLossError(fmt::format("'{}' is not a list", key));
  std::vector<std::int64_t> numbers;
  for (const json& value : *list) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t number, whole_number(value, key));
    numbers.push_back(number);
  }
  return numbers;
}

// False if the product, in bytes, does not fit.
bool bytes_of_shape(const std::vector<std::int64_t>& shape, ps::Dtype dtype, std::int64_t& bytes) {
  bytes = ps::bytes_of(dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) bytes = 0;
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return false;
  }
  return true;
}

absl::StatusOr<TensorEntry> parse_tensor(const std::string& name, const json& info) {
  PACELINE_ASSIGN_OR_RETURN(const json* type, member_of(info, "dtype"));
  const auto dtype = type->is_string() ? ps::dtype_of_safetensors(type->get<std::string>()) : std::nullopt;
  if (!dtype)
    return absl::UnimplementedError(fmt::format("tensor '{}' has an unknown dtype", printable(name)));
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, whole_numbers(info, "shape"));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> offsets, whole_numbers(info, "data_offsets"));
  if (info.size() != 3 || offsets.size() != 2)
    return absl::DataLossError("it has other fields than a tensor has");
  std::int64_t bytes = 0;
  if (!bytes_of_shape(shape, *dtype, bytes) || offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes) {
    return absl::DataLossError("its shape and its offsets do not agree");
  }
  return TensorEntry{name, std::move(shape), offsets[0], offsets[1], *dtype};
}

absl::Status parse_metadata(const json& metadata, std::map<std::string, std::string>& to) {
  if (!metadata.is_object()) return damaged("'{}' is not an object", kMetadata);
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) return damaged("'{}' in '{}' is not a string", printable(key), kMetadata);
    to.emplace(key, value.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status check_contiguous(const std::vector<TensorEntry>& tensors) {
  std::int64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != end)
      return damaged("tensor '{}' leaves a hole or overlaps another", printable(tensor.name));
    end = tensor.end;
  }
  return absl::OkStatus();
}

absl::Status about(const std::string& name, const absl::Status& status) {
  if (absl::IsUnimplemented(status)) return status;
  return damaged("tensor '{}': {}", printable(name), std::string(status.message()));
}

}  // namespace

absl::StatusOr<std::string> to_text(const SafetensorsHeader& header) {
  json root = json::object();
  if (!header.metadata.empty()) root[kMetadata] = header.metadata;
  for (const TensorEntry& tensor : header.tensors) {
    root[tensor.name] = {{"dtype", ps::safetensors_name(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  try {
    return root.dump();
  } catch (const json::type_error&) {
    return absl::InvalidArgumentError("a tensor's name or the metadata is not UTF-8; rename it");
  }
}

absl::StatusOr<SafetensorsHeader> parse_header(const std::string& text) {
  // The format demands the brace; a parser would also skip spaces.
  if (text.empty() || text.front() != '{') return damaged("it does not begin with '{{'");
  auto root = parse_strict_json(text, kHeaderDepth);
  if (!root.ok()) return damaged("{}", std::string(root.status().message()));
  SafetensorsHeader header;
  for (const auto& [name, info] : root->items()) {
    if (name == kMetadata) {
      PACELINE_RETURN_IF_ERROR(parse_metadata(info, header.metadata));
      continue;
    }
    auto tensor = parse_tensor(name, info);
    if (!tensor.ok()) return about(name, tensor.status());
    header.tensors.push_back(*std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  PACELINE_RETURN_IF_ERROR(check_contiguous(header.tensors));
  return header;
}

}  // namespace paceline::store
