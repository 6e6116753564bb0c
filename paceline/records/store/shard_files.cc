#include "paceline/records/store/shard_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFractions = "fractions";
constexpr const char* kStreams = "streams";
constexpr const char* kDtype = "dtype.";
constexpr int kMaxStreams = 16;

using NameOf = std::string (*)(const ps::TensorSpec& tensor, std::size_t stream);

std::string weight_name(const ps::TensorSpec& tensor, std::size_t) { return tensor.name; }
std::string stream_name(const ps::TensorSpec& tensor, std::size_t stream) {
  return fmt::format("{}.{}", tensor.name, stream);
}

ps::Dtype stored_as(const ps::TensorSpec& tensor) {
  return tensor.kind == ps::TensorKind::kConstant ? tensor.dtype : ps::Dtype::kFloat32;
}

// True if the file has this tensor's own values. The optimizer has no state for constants.
bool has_values(const ps::TensorSpec& tensor, NameOf name_of) {
  return name_of == weight_name || tensor.kind != ps::TensorKind::kConstant;
}

void add_views(const ps::Layout& layout, std::span<const float> flat, NameOf name_of, std::size_t stream,
               std::vector<TensorView>& views) {
  PACELINE_CHECK(static_cast<std::int64_t>(flat.size()) == layout.size(), "{} floats for a layout of {}",
                 flat.size(), layout.size());
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    if (!has_values(tensor, name_of)) continue;
    views.push_back({name_of(tensor, stream), tensor.shape, flat.data() + tensor.offset, stored_as(tensor)});
  }
}

// Sorts wide types first, like other writers of the format: then each tensor is aligned for its type.
void align(std::vector<TensorView>& views) {
  std::stable_sort(views.begin(), views.end(), [](const TensorView& a, const TensorView& b) {
    return ps::bytes_of(a.dtype) > ps::bytes_of(b.dtype);
  });
}

// The program's types that the tensors' own entries do not have.
std::map<std::string, std::string> dtypes_of(const ps::Layout& layout) {
  std::map<std::string, std::string> dtypes;
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    if (stored_as(tensor) != tensor.dtype)
      dtypes[kDtype + tensor.name] = std::string(ps::name_of(tensor.dtype));
  }
  return dtypes;
}

absl::Status another_model(const fs::path& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}; a run goes on with the model, the optimizer and the release of Paceline that it began with",
      path.string(), what));
}

// The tensors of a file by name, taken out one by one.
class Tensors {
 public:
  Tensors(fs::path path, std::vector<Tensor> tensors) : path_(std::move(path)) {
    for (Tensor& tensor : tensors) by_name_[tensor.name] = std::move(tensor);
  }

  absl::Status take(const std::string& name, const ps::TensorSpec& spec, std::vector<float>& flat) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return another_model(path_, missing(ps::piece_named(name).tensor));
    const Tensor& tensor = found->second;
    if (tensor.shape != spec.shape) {
      return another_model(path_, fmt::format("tensor '{}' has shape [{}] and not [{}]", name,
                                              fmt::join(tensor.shape, ", "), fmt::join(spec.shape, ", ")));
    }
    if (tensor.dtype != stored_as(spec)) {
      return another_model(path_, fmt::format("tensor '{}' is of dtype {} and not {}", name,
                                              ps::name_of(tensor.dtype), ps::name_of(stored_as(spec))));
    }
    std::copy(tensor.data.begin(), tensor.data.end(), flat.begin() + spec.offset);
    by_name_.erase(found);
    return absl::OkStatus();
  }

  absl::Status expect_empty() const {
    if (by_name_.empty()) return absl::OkStatus();
    return another_model(path_,
                         fmt::format("has a tensor '{}' too many", printable(by_name_.begin()->first)));
  }

 private:
  // The error for a missing tensor. A model of another size is cut into shards at other places.
  std::string missing(const std::string& tensor) const {
    const bool other_parts = std::any_of(by_name_.begin(), by_name_.end(), [&](const auto& one) {
      return ps::piece_named(one.first).tensor == tensor;
    });
    return other_parts ? fmt::format("has other parts of tensor '{}' than this model needs", tensor)
                       : fmt::format("has no tensor '{}'", tensor);
  }

  const fs::path path_;
  std::map<std::string, Tensor> by_name_;
};

absl::StatusOr<std::vector<float>> take_flat(Tensors& tensors, const ps::Layout& layout, NameOf name_of,
                                             std::size_t stream) {
  std::vector<float> flat(static_cast<std::size_t>(layout.size()));
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    if (!has_values(tensor, name_of)) continue;
    PACELINE_RETURN_IF_ERROR(tensors.take(name_of(tensor, stream), tensor, flat));
  }
  return flat;
}

template <class Number>
std::optional<Number> number_of(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const char* end = found->second.data() + found->second.size();
  Number number{};
  const auto [stopped, error] = std::from_chars(found->second.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

absl::StatusOr<std::vector<float>> read_weights(const fs::path& path, const ps::Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(path));
  Tensors tensors(path, std::move(file.tensors));
  PACELINE_ASSIGN_OR_RETURN(std::vector<float> weights, take_flat(tensors, layout, weight_name, 0));
  PACELINE_RETURN_IF_ERROR(tensors.expect_empty());
  return weights;
}

absl::StatusOr<ps::OptimizerState> read_optimizer(const fs::path& path, const ps::Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(path));
  PACELINE_ASSIGN_OR_RETURN(const OptimizerFacts facts, optimizer_facts(path, file.metadata));
  Tensors tensors(path, std::move(file.tensors));
  ps::OptimizerState state{{}, facts.fractions};
  for (std::size_t k = 0; k < facts.streams; ++k) {
    PACELINE_ASSIGN_OR_RETURN(std::vector<float> stream, take_flat(tensors, layout, stream_name, k));
    state.streams.push_back(std::move(stream));
  }
  PACELINE_RETURN_IF_ERROR(tensors.expect_empty());
  return state;
}

}  // namespace

std::string weights_name(int index, int count) {
  return fmt::format("weights-{}-of-{}.safetensors", index, count);
}

std::string optimizer_name(int index, int count) {
  return fmt::format("optimizer-{}-of-{}.safetensors", index, count);
}

bool is_shard_file(const std::string& name, int count) {
  for (int index = 1; index <= count; ++index) {
    if (name == weights_name(index, count) || name == optimizer_name(index, count)) return true;
  }
  return false;
}

fs::path weights_file(const fs::path& directory, int index, int count) {
  return directory / weights_name(index, count);
}

fs::path optimizer_file(const fs::path& directory, int index, int count) {
  return directory / optimizer_name(index, count);
}

absl::StatusOr<OptimizerFacts> optimizer_facts(const fs::path& path,
                                               const std::map<std::string, std::string>& metadata) {
  const auto fractions = number_of<double>(metadata, kFractions);
  const auto streams = number_of<int>(metadata, kStreams);
  const bool sane = fractions && std::isfinite(*fractions) && *fractions >= 0 && streams && *streams >= 0 &&
                    *streams <= kMaxStreams;
  if (!sane) return another_model(path, "is not optimizer state");
  return OptimizerFacts{*fractions, static_cast<std::size_t>(*streams)};
}

namespace {

absl::Status write_tensors(CheckpointFiles& files, const std::string& name, std::span<const TensorView> views,
                           const std::map<std::string, std::string>& metadata) {
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> file, files.create(name));
  const absl::Status status = write_safetensors(*file, views, metadata);
  // An error about the tensors lacks the file's name; all others have it.
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(
      fmt::format("{}/{}: {}", files.where(), name, std::string(status.message())));
}

}  // namespace

absl::Status write_shard(CheckpointFiles& files, int index, int count, const ps::Layout& layout,
                         std::span<const float> weights, const ps::OptimizerState& optimizer) {
  std::vector<TensorView> views;
  add_views(layout, weights, weight_name, 0, views);
  align(views);
  PACELINE_RETURN_IF_ERROR(write_tensors(files, weights_name(index, count), views, dtypes_of(layout)));
  views.clear();
  for (std::size_t k = 0; k < optimizer.streams.size(); ++k) {
    add_views(layout, optimizer.streams[k], stream_name, k, views);
  }
  // fmt writes the shortest decimal that reads back as the same double.
  return write_tensors(files, optimizer_name(index, count), views,
                       {{kFractions, fmt::format("{}", optimizer.fractions)},
                        {kStreams, fmt::format("{}", optimizer.streams.size())}});
}

absl::Status write_shard(const fs::path& directory, int index, int count, const ps::Layout& layout,
                         std::span<const float> weights, const ps::OptimizerState& optimizer) {
  FolderFiles files(directory);
  return write_shard(files, index, count, layout, weights, optimizer);
}

absl::Status check_shard(const fs::path& directory, int index, int count) {
  PACELINE_RETURN_IF_ERROR(check_safetensors(weights_file(directory, index, count)));
  return check_safetensors(optimizer_file(directory, index, count));
}

absl::StatusOr<ShardContents> read_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout) {
  ShardContents shard;
  PACELINE_ASSIGN_OR_RETURN(const fs::path weights, files.to_read(weights_name(index, count)));
  PACELINE_ASSIGN_OR_RETURN(shard.weights, read_weights(weights, layout));
  PACELINE_ASSIGN_OR_RETURN(const fs::path optimizer, files.to_read(optimizer_name(index, count)));
  PACELINE_ASSIGN_OR_RETURN(shard.optimizer, read_optimizer(optimizer, layout));
  return shard;
}

absl::StatusOr<ShardContents> read_shard(const fs::path& directory, int index, int count,
                                         const ps::Layout& layout) {
  FolderFiles files(directory);
  return read_shard(files, index, count, layout);
}

}  // namespace paceline::store
