// All shards of a job in one process: the servers of virtual time. One thread.
//
// The weights of the whole model lie part after part, as the servers split them; so do gradients.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/orders.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::virtual_time {

class LocalShards {
 public:
  // Errors: a model too small for this many servers; no memory.
  static absl::StatusOr<LocalShards> create(const config::JobConfig& job, const ps::Layout& layout);

  // One of these two is called before the first apply: it starts from these weights, or from a checkpoint of
  // this version.
  // `state`: of the optimizer, one stream of the whole model behind the other, made by `steps` updates; empty: none.
  absl::Status start(std::span<const float> weights, std::span<const float> state = {}, double steps = 0);
  absl::Status start(Version version, const std::string& checkpoint_dir);

  // `gradients`: one for each member of the commit, in its order.
  absl::Status apply(const control::CommitRecord& record, std::span<const float* const> gradients);
  // Whether the version that was applied last has only finite numbers.
  bool finite() const;

  // Copies the newest weights, or the weights `reach` along their direction. Requires: the job looks ahead.
  void copy_weights(std::span<float> out) const;
  void copy_weights_ahead(float reach, std::span<float> out) const;
  // Writes the newest version into a checkpoint's folder.
  absl::Status write(const std::string& dir) const;

 private:
  std::vector<std::unique_ptr<ps::Shard>> shards_;
};

}  // namespace paceline::virtual_time
