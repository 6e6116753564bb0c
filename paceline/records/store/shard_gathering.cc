// Shards from a checkpoint with another number of shards: each tensor of the layout, or piece of one, is put
// together from the tensors and pieces in the files.
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

// All floats of one kind (weights, or one stream) in the files, by tensor and place.
class Floats {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    const ps::PieceName piece = ps::piece_named(name);
    Source& source = sources_[piece.tensor];
    source.pieces[piece.begin] = tensor.data;
    source.floats += static_cast<std::int64_t>(tensor.data.size());
    if (piece.whole) source.shape = tensor.shape;
    source.dtype = tensor.dtype;
  }

  // `constants`: whether constants are among them.
  absl::StatusOr<std::vector<float>> of(const ps::Layout& layout, const std::string& where,
                                        bool constants) const {
    std::vector<float> flat(static_cast<std::size_t>(layout.size()));
    for (const ps::TensorSpec& spec : layout.tensors()) {
      if (spec.kind == ps::TensorKind::kConstant && !constants) continue;
      if (!copy(spec, flat.data() + spec.offset)) {
        return absl::InvalidArgumentError(fmt::format(
            "{}: has not all of tensor '{}', or another shape or type of it; a run goes on with the "
            "model, the optimizer and the release of Paceline that it began with",
            where, spec.name));
      }
    }
    return flat;
  }

 private:
  struct Source {
    std::map<std::int64_t, std::vector<float>> pieces;  // keyed by the index of their first float
    std::int64_t floats = 0;
    std::vector<std::int64_t> shape{-1};  // known if the whole tensor is in one file
    ps::Dtype dtype = ps::Dtype::kFloat32;
  };

  bool copy(const ps::TensorSpec& spec, float* to) const {
    const ps::PieceName wanted = ps::piece_named(spec.name);
    const auto found = sources_.find(wanted.tensor);
    if (found == sources_.end()) return false;
    const Source& source = found->second;
    if (source.dtype != (spec.kind == ps::TensorKind::kConstant ? spec.dtype : ps::Dtype::kFloat32))
      return false;
    if (wanted.whole && source.floats != spec.size) return false;
    if (wanted.whole && source.shape != std::vector<std::int64_t>{-1} && source.shape != spec.shape)
      return false;
    const std::int64_t end = wanted.begin + spec.size;
    std::int64_t at = wanted.begin;
    while (at < end) {
      auto piece = source.pieces.upper_bound(at);
      if (piece == source.pieces.begin()) return false;
      --piece;
      const std::int64_t offset = at - piece->first;
      const auto there = static_cast<std::int64_t>(piece->second.size());
      if (offset >= there) return false;
      const std::int64_t count = std::min(there - offset, end - at);
      std::copy_n(piece->second.begin() + offset, count, to + (at - wanted.begin));
      at += count;
    }
    return true;
  }

  std::map<std::string, Source> sources_;
};

// The number of the checkpoint's shards.
absl::StatusOr<int> shards_of(CheckpointFiles& files) {
  constexpr std::string_view kFirst = "weights-1-of-";
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.names());
  for (const std::string& name : names) {
    int count = 0;
    if (!name.starts_with(kFirst)) continue;
    std::from_chars(name.data() + kFirst.size(), name.data() + name.size(), count);
    if (count > 0 && weights_name(1, count) == name) return count;
  }
  return absl::NotFoundError(fmt::format("{}: holds no weights", files.where()));
}

absl::StatusOr<ShardContents> gather(CheckpointFiles& files, const ps::Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(const int count, shards_of(files));
  Floats weights;
  std::vector<Floats> streams;
  ShardContents shard;
  for (int index = 1; index <= count; ++index) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path weights_path, files.to_read(weights_name(index, count)));
    PACELINE_ASSIGN_OR_RETURN(const SafetensorsFile file, read_safetensors(weights_path));
    for (const Tensor& tensor : file.tensors) weights.add(tensor.name, tensor);
    PACELINE_ASSIGN_OR_RETURN(const fs::path optimizer_path, files.to_read(optimizer_name(index, count)));
    PACELINE_ASSIGN_OR_RETURN(const OptimizerFile optimizer, read_optimizer_file(optimizer_path));
    shard.optimizer.fractions = optimizer.fractions;
    streams.resize(std::max(streams.size(), optimizer.streams));
    for (std::size_t k = 0; k < optimizer.streams; ++k) {
      const std::string suffix = fmt::format(".{}", k);
      for (const Tensor& tensor : optimizer.tensors) {
        if (tensor.name.ends_with(suffix))
          streams[k].add(tensor.name.substr(0, tensor.name.size() - suffix.size()), tensor);
      }
    }
  }
  PACELINE_ASSIGN_OR_RETURN(shard.weights, weights.of(layout, files.where(), true));
  for (const Floats& stream : streams) {
    PACELINE_ASSIGN_OR_RETURN(std::vector<float> flat, stream.of(layout, files.where(), false));
    shard.optimizer.streams.push_back(std::move(flat));
  }
  return shard;
}

}  // namespace

absl::StatusOr<ShardContents> load_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout) {
  absl::StatusOr<ShardContents> own = read_shard(files, index, count, layout);
  if (!absl::IsNotFound(own.status()) && !absl::IsInvalidArgument(own.status())) return own;
  absl::StatusOr<ShardContents> gathered = gather(files, layout);
  // If the shard's own files are there, their error says more.
  return gathered.ok() || absl::IsNotFound(own.status()) ? gathered : own;
}

absl::StatusOr<ShardContents> load_shard(const fs::path& directory, int index, int count,
                                         const ps::Layout& layout) {
  FolderFiles files(directory);
  return load_shard(files, index, count, layout);
}

}  // namespace paceline::store
