// The shards that one server of a job keeps: its own, and where shards are kept twice, a copy of another
// server's, from which nobody reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/ps/shard.h"
#include "paceline/rpc/paceline.pb.h"

namespace paceline::cli {

class KeptShards {
 public:
  // Versions that evaluations and a checkpoint may hold at once.
  static constexpr int kMostKept = 8;

  // With the weights that the order names. Errors: those of the files; of an order that makes no sense; no
  // memory.
  static absl::StatusOr<KeptShards> start(const rpc::wire::ServerStart& order, const config::JobConfig& job);

  ps::Shard& own() const { return *kept_.front().shard; }
  // Floats before the own one in the whole model.
  std::int64_t own_offset() const { return kept_.front().offset; }
  bool twice() const { return kept_.size() > 1; }
  // The own one first.
  std::vector<ps::Shard*> all() const;

  // Writes its newest version, which is to be `version`, into a checkpoint's folder. Any thread, while
  // nothing changes. Errors: it is not here; those of the disk.
  absl::Status write(int index, Version version, const std::string& dir) const;

 private:
  struct Kept {
    int index;  // of the job's shards, from 0
    std::int64_t offset;
    std::unique_ptr<ps::Shard> shard;
  };

  KeptShards() = default;
  absl::Status add(int index, const rpc::wire::ServerStart& order, const config::JobConfig& job);
  absl::Status load_from_worker(const rpc::wire::ServerStart& order) const;
  absl::Status load_from_checkpoint(const rpc::wire::ServerStart& order) const;

  int count_ = 1;  // of the job's
  std::vector<Kept> kept_;
};

}  // namespace paceline::cli
