// The two files of one shard in a checkpoint: weights-<i>-of-<n>.safetensors and
// optimizer-<i>-of-<n>.safetensors. Written by the server that owns the shard, on its own thread; read by a
// process that starts one from a checkpoint.
//
// The weights have the model's own names, so that any tool that reads safetensors has the model. A tensor
// that is cut between shards is stored as flat pieces, whose names say where they begin (ps::Layout::part).
// Stream k of the optimizer state of a tensor is called "<tensor>.<k>"; constants have none. Padding is not
// stored, and is 0 when read.
//
// Parameters and statistics are F32, constants have their own type. If a parameter or statistic has another
// type than float32 in the program, the metadata of the weights say so: "dtype.<tensor>" is "float16".
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/records/store/checkpoint_files.h"
#include "paceline/records/store/safetensors.h"

namespace paceline::store {

// The file name of shard `index` of `count`, from 1.
std::string weights_name(int index, int count);
std::string optimizer_name(int index, int count);
// True if a checkpoint of `count` shards has a file of that name.
bool is_shard_file(const std::string& name, int count);
std::filesystem::path weights_file(const std::filesystem::path& directory, int index, int count);
std::filesystem::path optimizer_file(const std::filesystem::path& directory, int index, int count);

// Requires: `weights` and every stream have layout.size() floats. Errors: those of the files, such as
// ResourceExhausted if the disk is full.
absl::Status write_shard(CheckpointFiles& files, int index, int count, const ps::Layout& layout,
                         std::span<const float> weights, const ps::OptimizerState& optimizer);
absl::Status write_shard(const std::filesystem::path& directory, int index, int count,
                         const ps::Layout& layout, std::span<const float> weights,
                         const ps::OptimizerState& optimizer);

// Checks that both files are undamaged. Errors: DataLoss if one is damaged; NotFound.
absl::Status check_shard(const std::filesystem::path& directory, int index, int count);

struct ShardContents {
  std::vector<float> weights;  // layout.size() floats
  ps::OptimizerState optimizer;
};

// Errors: DataLoss if a file is damaged; InvalidArgument if its tensors are another model's; NotFound; those
// of the files.
absl::StatusOr<ShardContents> read_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout);
absl::StatusOr<ShardContents> read_shard(const std::filesystem::path& directory, int index, int count,
                                         const ps::Layout& layout);

// The metadata of an optimizer file.
struct OptimizerFacts {
  double fractions = 0;
  std::size_t streams = 0;
};
// Errors: InvalidArgument if these are of another file.
absl::StatusOr<OptimizerFacts> optimizer_facts(const std::filesystem::path& path,
                                               const std::map<std::string, std::string>& metadata);

// Like read_shard(), but the checkpoint may have another number of shards: then the parts that belong to
// `layout` are gathered from the files of all of them. Memory is needed for these parts alone, and of a file that has
// none of them only the header is read. Errors: the same.
absl::StatusOr<ShardContents> load_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout);
absl::StatusOr<ShardContents> load_shard(const std::filesystem::path& directory, int index, int count,
                                         const ps::Layout& layout);
// The weights alone, gathered from the files of however many shards: layout.size() floats. Errors: the same.
absl::StatusOr<std::vector<float>> load_weights(const std::filesystem::path& directory,
                                                const ps::Layout& layout);

}  // namespace paceline::store
