// Which part of the model each server of a job keeps.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/places.h"
#include "paceline/config/job_config.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/update_rule.h"

namespace paceline::config {

// Where the servers are.
enum class ServerSpread {
  kOneHost,
  kHosts,    // one on each of several hosts
  kCentral,  // the same, and the first one keeps everything
};
ServerSpread spread_of(const JobConfig& job);
// Whether the sum of a commit is made on its way to the first host, which keeps everything.
bool sums_on_the_way(const JobConfig& job);
// Whether gradients may go to other hosts before they are in a commit: not where they are summed on the way,
// or where a commit takes two steps.
bool sends_early(const JobConfig& job);
// How many servers virtual time has: it knows no hosts, so that those of several are one.
inline std::int64_t modelled_servers(const JobConfig& job) { return job.hosts > 1 ? 1 : job.servers; }

// One part a server. Between hosts they are of equal size, so that every link carries as much; a tensor that
// is cut has to be put together where it is read. On one host they are of whole tensors, which are read where
// they lie. So they are between hosts if the optimizer steps whole tensors (ps::is_tensorwise). In one place
// the first part is the whole model, and the others are empty. Errors: InvalidArgument when the model is too
// small for so many.
absl::StatusOr<std::vector<ps::Layout>> server_parts(const ps::Layout& layout, std::int64_t servers,
                                                     ServerSpread spread, ps::OptimizerKind optimizer);

// Which shards each server keeps.
using ServerShards = IdVector<ServerId, std::vector<ShardId>>;

// The own shard first. Where there are `copies` of each, server n + 1 has another of shard n, so that every
// two neighbours have all that either has. Requires: 1 ≤ copies ≤ servers.
ServerShards shards_kept(int servers, int copies);

}  // namespace paceline::config
