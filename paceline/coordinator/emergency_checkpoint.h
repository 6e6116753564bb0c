// A checkpoint out of turn, of the last certain version, when a server of a job that keeps its weights twice
// is lost: each shard is written by its own server, or where that is lost, by the server that has the other
// copy. A server that is lost meanwhile is replaced in the same way, as long as there is a copy. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class EmergencyCheckpoint {
 public:
  using Tell = std::function<void(std::size_t server, const wire::ServerOrder&)>;

  // `kept`: the shards of each server, its own first. `here`: of the servers, who is left. All shards are to
  // be written into `dir`.
  EmergencyCheckpoint(std::vector<std::vector<int>> kept, std::vector<bool> here, Version version,
                      std::string dir, Tell tell);

  // Errors, here and below: no copy of a shard is left.
  absl::Status begin();
  absl::Status lose(std::size_t server);
  // It has written a shard; or could not, and somebody else has to, for all that it was to write.
  absl::Status written(std::size_t server, const wire::CopyWritten& message);
  // Every shard is written.
  bool done() const;

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  struct Shard {
    std::size_t writer = kNobody;
    bool written = false;
  };

  // To the first that is left of those that keep it.
  absl::Status assign(std::size_t shard);

  const std::vector<std::vector<int>> kept_;
  std::vector<bool> here_;
  const Version version_;
  const std::string dir_;
  const Tell tell_;
  std::vector<Shard> shards_;
};

}  // namespace paceline::coordinator
