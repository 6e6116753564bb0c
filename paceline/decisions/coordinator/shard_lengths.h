// The lengths of shards that workers learnt while they read them. Hosts whose shards differ in a length train on other
// records at the same positions. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

class ShardLengths {
 public:
  using Said = std::vector<ShardLength>;

  // `host`: of this worker. Errors: FailedPrecondition in one line for people, if a shard had another length before;
  // the run cannot go on.
  absl::Status learn(const std::string& worker, HostRank host, const Said& said);

 private:
  struct Known {
    std::int64_t records;
    HostRank host;  // the host of the first worker that said so
  };
  std::unordered_map<std::int32_t, Known> known_;
};

}  // namespace paceline::coordinator
