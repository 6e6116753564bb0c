// The shards that one server of a job keeps: its own, and where shards are kept twice, a copy of another
// server's, from which nobody reads. Then it also knows the books of the newest version that it made, and
// outlives the coordinator that had it made.
//
// What always holds: where shards are kept twice, all of them are of one version, and so is what is prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/ps/shard.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/transport/gradient_buffer.h"

namespace paceline::roles {

// What a job begins with, in memory of a worker that may be gone by now; nothing where there is a checkpoint.
struct FirstWeights {
  std::optional<transport::GradientReader> memory{};
  std::span<const float> weights{};

  // Errors: the worker is gone, or its memory does not hold them.
  static absl::StatusOr<FirstWeights> of(const rpc::wire::ServerStart& order);
};

class KeptShards {
 public:
  // Versions that evaluations and a checkpoint may hold at once.
  static constexpr int kMostKept = 8;

  // With the weights of the checkpoint that the order names, or else with `first`. Errors: those of the
  // files; of an order that makes no sense; no memory.
  static absl::StatusOr<KeptShards> start(const rpc::wire::ServerStart& order, const config::JobConfig& job,
                                          std::span<const float> first);

  ps::Shard& own() const { return *kept_.front().shard; }
  // Floats before the own one in the whole model.
  std::int64_t own_offset() const { return kept_.front().offset; }
  bool twice() const { return kept_.size() > 1; }
  // The own one first.
  std::vector<ps::Shard*> all() const;

  // Where shards are kept twice: all have prepared the version of this order.
  void prepared(const rpc::wire::Apply& order);
  std::optional<Version> prepared() const { return prepared_; }
  // Requires: a version is prepared.
  void publish();
  // What is here, for a coordinator that does not know it; nothing where no version was made, or all is kept
  // once.
  std::optional<rpc::wire::Held> held() const;

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
  void begin_with(std::span<const float> weights) const;
  absl::Status load_from_checkpoint(const rpc::wire::ServerStart& order) const;

  int count_ = 1;  // of the job's
  std::string attempt_;
  std::optional<Version> prepared_;
  std::string state_;  // of the newest version that was made here; empty: none was
  std::int64_t elapsed_ns_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace paceline::roles
