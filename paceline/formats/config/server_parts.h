// Which part of the model each server of a job keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/places.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::config {

// The places of the servers.
enum class ServerSpread {
  kOneHost,
  kHosts,    // one on each of several hosts
  kCentral,  // the same, and the first one keeps everything
};
ServerSpread spread_of(const JobConfig& job);
// Why the shards of this job cannot be in a card's memory, in words that follow "because"; nothing if they can.
std::optional<std::string> why_not_on_card(const JobConfig& job);
// Whether the sum of a commit is made on its way to the first host, which keeps everything.
bool sums_on_the_way(const JobConfig& job);
// Whether gradients may go to other hosts before they are in a commit: not if they are summed on the way, or
// if a commit takes two steps.
bool sends_early(const JobConfig& job);
// How many servers virtual time has: it has no hosts, so the servers of several hosts are one.
inline std::int64_t modelled_servers(const JobConfig& job) { return job.hosts > 1 ? 1 : job.servers; }

// One part for each server. Between hosts the parts are of equal size, so that every link carries equally
// much; a reader puts a cut tensor together. On one host the parts have whole tensors, which are read in
// place. Between hosts they also have whole tensors if the optimizer steps whole tensors (ps::is_tensorwise).
// With all weights in one place, the first part is the whole model, and the others are empty. Errors:
// InvalidArgument when the model is too small for so many.
absl::StatusOr<std::vector<ps::Layout>> server_parts(const ps::Layout& layout, std::int64_t servers,
                                                     ServerSpread spread, ps::OptimizerKind optimizer);

// The shards that each server keeps.
using ServerShards = IdVector<ServerId, std::vector<ShardId>>;

// The server's own shard comes first. With several `copies`, server n + 1 has another copy of shard n, so
// that the neighbours of a lost server have its shards. Requires: 1 ≤ copies ≤ servers.
ServerShards shards_kept(int servers, int copies);

}  // namespace paceline::config
