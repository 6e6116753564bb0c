// The lengths of shards that workers learnt while they read them. Hosts whose shards differ in a length train on other
// records at the same positions, and so does a resumed run with other shards than before. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

// The records of a shard, by its number.
struct ShardRecords {
  std::int32_t shard = 0;
  std::int64_t records = 0;

  friend bool operator==(const ShardRecords&, const ShardRecords&) = default;
};

class ShardLengths {
 public:
  using Said = std::vector<ShardLength>;

  ShardLengths() = default;
  // `before`: the lengths that the run had learnt before it was resumed.
  explicit ShardLengths(const std::vector<ShardRecords>& before);

  // Returns the lengths that nobody had said before. `host`: of this worker. Errors: FailedPrecondition in one line for
  // people, if a shard had another length before; the run cannot go on.
  absl::StatusOr<std::vector<ShardRecords>> learn(const std::string& worker, HostRank host, const Said& said);

 private:
  struct Known {
    std::int64_t records;
    std::optional<HostRank> host;  // the first worker's that said so; nothing: the run was resumed since
  };
  std::unordered_map<std::int32_t, Known> known_;
};

}  // namespace paceline::coordinator
