// The two files that one shard leaves in a checkpoint: weights-<i>-of-<n>.safetensors and
// optimizer-<i>-of-<n>.safetensors. Written by the server that owns the shard, on its own thread; read by
// a process that starts one from a checkpoint.
//
// The weights lie under the model's own names, so that any tool that reads safetensors has the model; of a
// tensor that is cut between shards they are flat pieces, whose names say where they begin
// (ps::Layout::part). Stream k of the optimizer state of a tensor is called "<tensor>.<k>"; constants have
// none. Padding is not stored, and is 0 when read.
//
// Parameters and statistics are F32, constants of their own type. Where a parameter or statistic has another
// type than float32 in the program, the metadata of the weights say so: "dtype.<tensor>" is "float16".
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/ps/layout.h"
#include "paceline/ps/shard.h"
#include "paceline/store/checkpoint_files.h"
#include "paceline/store/safetensors.h"

namespace paceline::store {

// Shard `index` of `count`, from 1.
std::string weights_name(int index, int count);
std::string optimizer_name(int index, int count);
// Whether a checkpoint of so many shards has a file of that name.
bool is_shard_file(const std::string& name, int count);
std::filesystem::path weights_file(const std::filesystem::path& directory, int index, int count);
std::filesystem::path optimizer_file(const std::filesystem::path& directory, int index, int count);

// Requires: `weights` and every stream are layout.size() floats. Errors: those of the files, such as
// ResourceExhausted when the disk is full.
absl::Status write_shard(CheckpointFiles& files, int index, int count, const ps::Layout& layout,
                         std::span<const float> weights, const ps::OptimizerState& optimizer);
absl::Status write_shard(const std::filesystem::path& directory, int index, int count,
                         const ps::Layout& layout, std::span<const float> weights,
                         const ps::OptimizerState& optimizer);

// Whether both files are as they were written. Errors: DataLoss when one is damaged; NotFound.
absl::Status check_shard(const std::filesystem::path& directory, int index, int count);

struct ShardContents {
  std::vector<float> weights;  // layout.size() floats
  ps::OptimizerState optimizer;
};

// Errors: DataLoss when a file is damaged; InvalidArgument when its tensors are another model's; NotFound;
// those of the files.
absl::StatusOr<ShardContents> read_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout);
absl::StatusOr<ShardContents> read_shard(const std::filesystem::path& directory, int index, int count,
                                         const ps::Layout& layout);

// One of those files: the streams' tensors, under the names above.
struct OptimizerFile {
  double fractions = 0;
  std::size_t streams = 0;
  std::vector<Tensor> tensors;
};
// Errors: DataLoss; InvalidArgument when it is none; NotFound.
absl::StatusOr<OptimizerFile> read_optimizer_file(const std::filesystem::path& path);

// The same where the checkpoint may have been cut into other shards, more or fewer: what belongs to `layout`
// is then gathered from the files of all of them. Errors: the same.
absl::StatusOr<ShardContents> load_shard(CheckpointFiles& files, int index, int count,
                                         const ps::Layout& layout);
absl::StatusOr<ShardContents> load_shard(const std::filesystem::path& directory, int index, int count,
                                         const ps::Layout& layout);

}  // namespace paceline::store
