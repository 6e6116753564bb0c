// Shards from a checkpoint with another number of shards: each tensor of the layout, or piece of one, is put
// together from the tensors and pieces in the files.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

// Bytes of a tensor in a file, and where they are wanted.
struct Wanted {
  std::int64_t offset = 0;  // distance of the first one from the start of the tensor
  std::int64_t bytes = 0;
  float* to = nullptr;
};

// A file of the checkpoint, and what is wanted of each of its tensors.
class PartFile {
 public:
  explicit PartFile(SafetensorsReader reader)
      : reader_(std::move(reader)), wanted_(reader_.tensors().size()) {}

  const std::vector<TensorEntry>& tensors() const { return reader_.tensors(); }
  void want(std::size_t tensor, std::int64_t floats_before, std::int64_t floats, float* to) {
    constexpr std::int64_t kFloat = sizeof(float);
    const TensorEntry& entry = tensors()[tensor];
    const std::int64_t offset = floats_before * kFloat;
    wanted_[tensor].push_back({offset, std::min(floats * kFloat, entry.end - entry.begin - offset), to});
  }
  absl::Status read() const {
    const bool has_none =
        std::all_of(wanted_.begin(), wanted_.end(), [](const auto& list) { return list.empty(); });
    if (has_none) return absl::OkStatus();
    return reader_.read([this](std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
      for (const Wanted& one : wanted_[tensor]) {
        const std::int64_t begin = std::max(offset, one.offset);
        const std::int64_t end = std::min(offset + std::ssize(bytes), one.offset + one.bytes);
        if (begin < end)
          std::copy_n(bytes.begin() + (begin - offset), end - begin,
                      reinterpret_cast<std::byte*>(one.to) + (begin - one.offset));
      }
    });
  }

 private:
  SafetensorsReader reader_;
  std::vector<std::vector<Wanted>> wanted_;
};

// The places of all floats of one kind (weights, or one stream) in the files, by tensor.
class Places {
 public:
  // `name`: of a tensor, or a piece of one, that is the tensor of that number in that file.
  void add(const std::string& name, std::size_t file, std::size_t tensor, const TensorEntry& entry) {
    constexpr std::int64_t kFloat = sizeof(float);
    const ps::PieceName piece = ps::piece_named(name);
    const std::int64_t floats = (entry.end - entry.begin + kFloat - 1) / kFloat;
    Source& source = sources_[piece.tensor];
    source.pieces[piece.begin] = {file, tensor, floats};
    source.floats += floats;
    if (piece.whole) source.shape = entry.shape;
    source.dtype = entry.dtype;
  }

  // Tells the files what `layout` needs of them, and where in the result, which is zero yet. `constants`: whether
  // constants are among them.
  absl::StatusOr<std::vector<float>> want(const ps::Layout& layout, const std::string& where, bool constants,
                                          std::vector<PartFile>& files) const {
    std::vector<float> flat(static_cast<std::size_t>(layout.size()));
    for (const ps::TensorSpec& spec : layout.tensors()) {
      if (spec.kind == ps::TensorKind::kConstant && !constants) continue;
      if (!want(spec, flat.data() + spec.offset, files)) {
        return absl::InvalidArgumentError(fmt::format(
            "{}: has not all of tensor '{}', or another shape or type of it; a run goes on with the "
            "model, the optimizer and the release of Paceline that it began with",
            where, spec.name));
      }
    }
    return flat;
  }

 private:
  struct Piece {
    std::size_t file = 0;
    std::size_t tensor = 0;
    std::int64_t floats = 0;
  };
  struct Source {
    std::map<std::int64_t, Piece> pieces;  // keyed by the index of their first float
    std::int64_t floats = 0;
    std::vector<std::int64_t> shape{-1};  // known if the whole tensor is in one file
    ps::Dtype dtype = ps::Dtype::kFloat32;
  };

  bool want(const ps::TensorSpec& spec, float* to, std::vector<PartFile>& files) const {
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
      if (offset >= piece->second.floats) return false;
      const std::int64_t count = std::min(piece->second.floats - offset, end - at);
      files[piece->second.file].want(piece->second.tensor, offset, count, to + (at - wanted.begin));
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

absl::StatusOr<std::vector<float>> gather_weights(CheckpointFiles& files, const ps::Layout& layout, int count,
                                                  std::vector<PartFile>& parts) {
  Places places;
  for (int index = 1; index <= count; ++index) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path path, files.to_read(weights_name(index, count)));
    PACELINE_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::open(path));
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      places.add(reader.tensors()[i].name, parts.size(), i, reader.tensors()[i]);
    parts.emplace_back(std::move(reader));
  }
  return places.want(layout, files.where(), true, parts);
}

absl::StatusOr<ps::OptimizerState> gather_state(CheckpointFiles& files, const ps::Layout& layout, int count,
                                                std::vector<PartFile>& parts) {
  ps::OptimizerState state;
  std::vector<Places> streams;
  for (int index = 1; index <= count; ++index) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path path, files.to_read(optimizer_name(index, count)));
    PACELINE_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::open(path));
    PACELINE_ASSIGN_OR_RETURN(const OptimizerFacts facts, optimizer_facts(path, reader.metadata()));
    state.fractions = facts.fractions;
    streams.resize(std::max(streams.size(), facts.streams));
    for (std::size_t k = 0; k < facts.streams; ++k) {
      const std::string suffix = fmt::format(".{}", k);
      for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
        const TensorEntry& entry = reader.tensors()[i];
        if (!entry.name.ends_with(suffix)) continue;
        streams[k].add(entry.name.substr(0, entry.name.size() - suffix.size()), parts.size(), i, entry);
      }
    }
    parts.emplace_back(std::move(reader));
  }
  for (const Places& stream : streams) {
    PACELINE_ASSIGN_OR_RETURN(std::vector<float> flat, stream.want(layout, files.where(), false, parts));
    state.streams.push_back(std::move(flat));
  }
  return state;
}

absl::StatusOr<ShardContents> gather(CheckpointFiles& files, const ps::Layout& layout, bool with_state) {
  PACELINE_ASSIGN_OR_RETURN(const int count, shards_of(files));
  std::vector<PartFile> parts;
  ShardContents shard;
  PACELINE_ASSIGN_OR_RETURN(shard.weights, gather_weights(files, layout, count, parts));
  if (with_state) {
    PACELINE_ASSIGN_OR_RETURN(shard.optimizer, gather_state(files, layout, count, parts));
  }
  for (const PartFile& part : parts) PACELINE_RETURN_IF_ERROR(part.read());
  return shard;
}

}  // namespace

absl::StatusOr<ShardContents> load_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout) {
  absl::StatusOr<ShardContents> own = read_shard(files, index, count, layout);
  if (!absl::IsNotFound(own.status()) && !absl::IsInvalidArgument(own.status())) return own;
  absl::StatusOr<ShardContents> gathered = gather(files, layout, true);
  // If the shard's own files are there, their error says more.
  return gathered.ok() || absl::IsNotFound(own.status()) ? gathered : own;
}

absl::StatusOr<ShardContents> load_shard(const fs::path& directory, int index, int count,
                                         const ps::Layout& layout) {
  FolderFiles files(directory);
  return load_shard(files, index, count, layout);
}

absl::StatusOr<std::vector<float>> load_weights(const fs::path& directory, const ps::Layout& layout) {
  FolderFiles files(directory);
  PACELINE_ASSIGN_OR_RETURN(ShardContents gathered, gather(files, layout, false));
  return std::move(gathered.weights);
}

}  // namespace paceline::store
