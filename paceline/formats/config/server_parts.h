// Which part of the model each server of a job keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/layout.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::config {

using coordinator::ServerSpread;
ServerSpread spread_of(const JobConfig& job);
// Why the shards of this job cannot be in a card's memory, in words that follow "because"; nothing if they can.
std::optional<std::string> why_not_on_card(const JobConfig& job);
// The setting with which each of a host's cards has a part of the weights, if they are to be in memory of cards and the job
// does not say how many servers there are; nullopt: one server has them all. `cards`: those that its program could choose.
std::optional<std::string> servers_setting(const JobConfig& job, std::int32_t cards);
// Whether programs of this job may write gradients of bfloat16 and read such weights (ps/bfloat16.h): only if nobody but
// whole replicas and one host's servers read and write them.
bool takes_bfloat16(const JobConfig& job);
// Whether the sum of a commit is made on its way to the first host, which keeps everything.
bool sums_on_the_way(const JobConfig& job);
// Whether gradients may go to other hosts before they are in a commit: not if they are summed on the way, or
// if a commit takes two steps.
bool sends_early(const JobConfig& job);
// How many servers virtual time has: it has no hosts, so the servers of several hosts are one.
inline std::int64_t modelled_servers(const JobConfig& job) { return job.hosts > 1 ? 1 : job.servers; }

// The part of each server of this job (coordinator/server_parts.h). Errors: InvalidArgument when the model is too small.
absl::StatusOr<std::vector<Layout>> server_parts(const JobConfig& job, const Layout& layout);

}  // namespace paceline::config
