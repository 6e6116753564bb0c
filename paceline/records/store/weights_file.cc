#include "paceline/records/store/weights_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/convert.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

namespace {

absl::Status read_into(const Tensor& tensor, const ps::TensorSpec& spec, std::span<float> to) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("tensor '{}' {}", printable(spec.name), what));
  };
  if (tensor.shape != spec.shape) {
    return wrong(fmt::format("has the shape [{}], and [{}] in the model", fmt::join(tensor.shape, ", "),
                             fmt::join(spec.shape, ", ")));
  }
  if (spec.kind == ps::TensorKind::kConstant) {
    if (tensor.dtype != spec.dtype)
      return wrong(fmt::format("is of type {}, and {} in the model", ps::name_of(tensor.dtype),
                               ps::name_of(spec.dtype)));
    std::copy(tensor.data.begin(), tensor.data.end(), to.begin());
    return absl::OkStatus();
  }
  if (spec.dtype == ps::Dtype::kInt64 && tensor.dtype == spec.dtype) {  // a counter that is averaged
    std::int64_t value = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
      to[i] = static_cast<float>(value);
    }
    return absl::OkStatus();
  }
  if (!ps::to_float32(std::as_bytes(std::span(tensor.data)), tensor.dtype, to))
    return wrong(fmt::format("is of type {}, which is not a floating-point type", ps::name_of(tensor.dtype)));
  if (!std::all_of(to.begin(), to.end(), [](float value) { return std::isfinite(value); }))
    return wrong("is not finite");
  return absl::OkStatus();
}

}  // namespace

absl::Status read_weights(const std::filesystem::path& file, const ps::Layout& layout, std::span<float> out) {
  std::map<std::string, const ps::TensorSpec*> wanted;
  for (const ps::TensorSpec& spec : layout.tensors()) wanted[spec.name] = &spec;
  std::map<const ps::TensorSpec*, absl::Status> found;
  const absl::Status read = each_tensor(file, [&](const Tensor& tensor) {
    const auto spec = wanted.find(tensor.name);
    if (spec == wanted.end()) return;
    found[spec->second] = read_into(tensor, *spec->second,
                                    out.subspan(static_cast<std::size_t>(spec->second->offset),
                                                static_cast<std::size_t>(spec->second->size)));
  });
  if (absl::IsDataLoss(read)) {
    return absl::DataLossError(
        fmt::format("{}; name a whole safetensors file, for example one that `paceline export` "
                    "has written",
                    std::string(read.message())));
  }
  PACELINE_RETURN_IF_ERROR(read);
  for (const ps::TensorSpec& spec : layout.tensors()) {
    const auto one = found.find(&spec);
    const absl::Status status = one == found.end()
                                    ? absl::InvalidArgumentError(fmt::format(
                                          "has no tensor '{}', which the model has", printable(spec.name)))
                                    : one->second;
    if (!status.ok()) {
      return absl::Status(status.code(), fmt::format("{}: {}", file.string(), std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline::store
