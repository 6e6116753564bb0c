// A checkpoint out of turn, of the last certain version, when a server of a job that keeps its weights twice
// is lost: each shard is written by its own server, or, if that is lost, by the server with the other copy. A
// server that is lost meanwhile is replaced in the same way, as long as there is a copy. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/server_parts.h"

namespace paceline::coordinator {

class EmergencyCheckpoint {
 public:
  // Carries out `write_copy` orders.
  using Tell = std::function<void(ServerId server, WriteCopy)>;

  // `here`: the servers that are left. All shards are to be written into `dir`.
  EmergencyCheckpoint(ServerShards kept, IdVector<ServerId, bool> here, Version version, std::string dir,
                      Tell tell);

  // Errors, here and below: no copy of a shard is left.
  absl::Status begin();
  absl::Status lose(ServerId server);
  // The server has written a shard. If it could not, another server has to write all its shards.
  absl::Status written(ServerId server, const CopyWritten& message);
  // Whether every shard is written.
  bool done() const;

 private:
  struct Shard {
    std::optional<ServerId> writer;
    bool written = false;
  };

  // Gives the shard to the first server that keeps it and is left.
  absl::Status assign(ShardId shard);

  const ServerShards kept_;
  IdVector<ServerId, bool> here_;
  const Version version_;
  const std::string dir_;
  const Tell tell_;
  IdVector<ShardId, Shard> shards_;
};

}  // namespace paceline::coordinator
