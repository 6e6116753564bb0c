// The shards that one server of a job keeps: its own, and, if shards are kept twice, a copy of another
// server's, which no process reads. Then they survive the coordinator that ordered them.
//
// Invariant: where shards are kept twice, all of them are of one version, and so is what is prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/server_process/kept_memory.h"
#include "paceline/processes/server_process/servers_card.h"
#include "paceline/records/store/checkpoint_files.h"

namespace paceline::server_process {

// The job's first weights, in memory of a worker that may be gone by now; nothing if there is a checkpoint.
struct FirstWeights {
  std::optional<memory::GradientReader> memory{};
  std::span<const float> weights{};
  // The optimizer's first state, one stream of the whole model behind the other, which `steps` updates have made.
  std::span<const float> state{};
  double steps = 0;

  // Errors: the worker is gone, or its memory does not hold them.
  static absl::StatusOr<FirstWeights> of(const wire::ServerStart& order, const config::JobConfig& job);
};

class KeptShards {
 public:
  // Whether memory that outlives a server can have a shard of this job. For an optimizer that steps whole tensors
  // (is_tensorwise) it would need copies of them, which take up to half of an update's time.
  static bool can_outlive(const config::JobConfig& job);

  // With the weights of the checkpoint, where the order names one; or else with `first`, or with what
  // begin_with() brings where that is empty. Errors: those of the
  // files; of an order that makes no sense; no memory.
  // `kept`: keeps the memory from then on; null: nobody does. Requires: can_outlive() and one copy of each shard then.
  // `card`: has the shard; null: the host's memory has it.
  static absl::StatusOr<KeptShards> start(const wire::ServerStart& order, const config::JobConfig& job,
                                          const FirstWeights& first, store::CheckpointFiles& checkpoint,
                                          ServersCard* card, KeptMemory* kept = nullptr);
  // The shard that an earlier server of this attempt left, as its latest version. Errors: InvalidArgument or NotFound if
  // `left` is not that; those of the memory.
  static absl::StatusOr<KeptShards> take_up(const wire::ServerStart& order, const config::JobConfig& job,
                                            ServersCard* card, KeptMemory& left);

  // Starts all with `first` of the whole model, as version 0. Errors: those of the memory.
  absl::Status begin_with(const FirstWeights& first) const;

  ps::Shard& own() const { return *kept_.front().shard; }
  // Floats before the own one in the whole model.
  std::int64_t own_offset() const { return kept_.front().offset; }
  // The own one first.
  std::vector<ps::Shard*> all() const;

  // Requires: all have prepared a version.
  void publish() const;

  // Writes its newest version, which is to be `version`, into a checkpoint. Any thread, while nothing
  // changes. Errors: it is not here; those of the files.
  absl::Status write(int index, Version version, store::CheckpointFiles& checkpoint) const;

 private:
  struct Kept {
    int index;  // number among the job's shards, from 0
    std::int64_t offset;
    std::unique_ptr<ps::Shard> shard;
  };

  KeptShards() = default;
  // `take_up`: `kept` has the shard.
  absl::Status add(int index, const wire::ServerStart& order, const config::JobConfig& job, ServersCard* card,
                   KeptMemory* kept, bool take_up = false);
  absl::Status load_from_checkpoint(Version version, store::CheckpointFiles& checkpoint) const;

  int count_ = 1;  // number of the job's shards
  std::vector<Kept> kept_;
};

}  // namespace paceline::server_process
