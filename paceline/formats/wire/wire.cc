#include "paceline/formats/wire/wire.h"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline::wire {

namespace {
constexpr std::int64_t kMostFloats = std::int64_t{1} << 40;
constexpr int kMostTensors = 1 << 20;

absl::StatusOr<ps::TensorKind> kind_of(const Tensor& tensor) {
  if (tensor.statistic() && tensor.constant())
    return absl::InvalidArgumentError(fmt::format("tensor '{}' is of two kinds", tensor.name()));
  if (tensor.constant()) return ps::TensorKind::kConstant;
  return tensor.statistic() ? ps::TensorKind::kStatistic : ps::TensorKind::kParameter;
}

absl::StatusOr<ps::Dtype> dtype_of(const Tensor& tensor) {
  if (tensor.dtype().empty()) return ps::Dtype::kFloat32;
  if (const auto dtype = ps::dtype_named(tensor.dtype())) return *dtype;
  return absl::InvalidArgumentError(fmt::format("tensor '{}' has an unknown dtype", tensor.name()));
}
}  // namespace

Layout to_wire(const ps::Layout& layout) {
  Layout message;
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    Tensor* added = message.add_tensors();
    added->set_name(tensor.name);
    added->set_statistic(tensor.kind == ps::TensorKind::kStatistic);
    added->set_constant(tensor.kind == ps::TensorKind::kConstant);
    if (tensor.dtype != ps::Dtype::kFloat32) added->set_dtype(std::string(ps::name_of(tensor.dtype)));
    for (std::int64_t extent : tensor.shape) added->add_shape(extent);
  }
  return message;
}

absl::StatusOr<ps::Layout> from_wire(const Layout& message) {
  if (message.tensors_size() == 0) return absl::InvalidArgumentError("a model of no tensors");
  return part_from_wire(message);
}

absl::StatusOr<ps::Layout> part_from_wire(const Layout& message) {
  if (message.tensors_size() > kMostTensors) {
    return absl::InvalidArgumentError(fmt::format("a model of {} tensors", message.tensors_size()));
  }
  ps::Layout layout;
  for (const Tensor& tensor : message.tensors()) {
    std::int64_t size = 1;
    for (std::int64_t extent : tensor.shape()) {
      if (extent <= 0 || extent > kMostFloats / size) {
        return absl::InvalidArgumentError(fmt::format("tensor '{}' has an impossible shape", tensor.name()));
      }
      size *= extent;
    }
    if (layout.size() > kMostFloats - size) return absl::InvalidArgumentError("the model is too large");
    PACELINE_ASSIGN_OR_RETURN(const ps::TensorKind kind, kind_of(tensor));
    PACELINE_ASSIGN_OR_RETURN(const ps::Dtype dtype, dtype_of(tensor));
    layout.add(tensor.name(), kind, {tensor.shape().begin(), tensor.shape().end()}, dtype);
  }
  return layout;
}

Lease to_wire(const paceline::Lease& lease) {
  Lease message;
  message.set_epoch(lease.epoch);
  message.set_begin(lease.begin);
  message.set_end(lease.end);
  message.set_scrap_begin(lease.scrap_begin);
  message.set_scrap_end(lease.scrap_end);
  return message;
}

google::protobuf::RepeatedPtrField<DataPart> to_wire(const DataOrder& order) {
  google::protobuf::RepeatedPtrField<DataPart> message;
  for (const paceline::DataPart& part : order) {
    DataPart* const added = message.Add();
    added->set_from(part.from);
    added->set_digest(part.digest);
  }
  return message;
}

absl::StatusOr<DataOrder> from_wire(const google::protobuf::RepeatedPtrField<DataPart>& message) {
  DataOrder order;
  for (const DataPart& part : message) order.push_back({part.from(), part.digest()});
  if (!is_data_order(order))
    return absl::InvalidArgumentError("the parts of the data's order are not in order");
  return order;
}

absl::StatusOr<paceline::Lease> from_wire(const Lease& message) {
  const paceline::Lease lease{message.epoch(), message.begin(), message.end(), message.scrap_begin(),
                              message.scrap_end()};
  const bool no_scrap = lease.scrap_begin == 0 && lease.scrap_end == 0;
  const bool scrap =
      lease.scrap_begin >= 0 && lease.scrap_begin < lease.scrap_end && lease.scrap_end < lease.begin;
  if (lease.epoch < 0 || lease.begin < 0 || lease.end <= lease.begin || !(no_scrap || scrap))
    return absl::InvalidArgumentError("a lease of " + in_words(lease));
  return lease;
}

absl::StatusOr<float> look_ahead_reach(const WorkerRelease& message, const ps::OptimizerConfig& optimizer) {
  const auto sane = [](double number) { return std::isfinite(number) && number >= 0; };
  if (!sane(message.learning_rate()) || !sane(message.staleness()) || !sane(message.fraction())) {
    return absl::InvalidArgumentError(fmt::format("a look {} commits of fraction {} ahead at rate {}",
                                                  message.staleness(), message.fraction(),
                                                  message.learning_rate()));
  }
  return static_cast<float>(
      ps::look_ahead_reach(optimizer, message.learning_rate(), message.staleness(), message.fraction()));
}

}  // namespace paceline::wire
