// The gradients of this host's replicas, as a server reads them: in memory of their workers, or on the server's card. A
// worker that does not compute on that card leaves its gradient in its own memory, and it is copied to the card.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/processes/server_process/servers_card.h"

namespace paceline::server_process {

class Gradients {
 public:
  // Each gradient has `floats` floats: the whole model's. `card`: has them; null: the host's memory has them.
  Gradients(std::int64_t floats, ServersCard* card) : floats_(floats), card_(card) {}

  // `card`: that the replica's worker computes on. Errors: the worker's memory cannot be read; the card has no room.
  absl::Status map(std::int32_t replica, const std::string& path, const std::string& card = "");
  void unmap(std::int32_t replica);
  bool maps(std::int32_t replica) const { return readers_.contains(replica); }
  // Whether the replica's worker said that its gradient of this iteration is ready.
  bool is_ready(std::int32_t replica, Clock clock) const {
    const auto found = readers_.find(replica);
    return found != readers_.end() && found->second.is_ready(ReplicaId(replica), clock);
  }

  // Whether a replica has its gradient in the host's memory, and the shards are on a card.
  bool any_by_host() const { return !by_host_.empty(); }

  // The place of a replica's gradient of this clock. Errors: it is not here; missing() says whose. Those of the card.
  absl::StatusOr<ps::GradientPlace> place(std::int32_t replica, Clock clock);
  // The same in the host's memory; null if it is not here, which is no error yet.
  const float* place_if_here(std::int32_t replica, Clock clock) const;
  // Requires: maps().
  const memory::GradientReader& reader(std::int32_t replica) const { return readers_.at(replica); }
  // The replica whose gradient was wanted last, and was not here.
  std::optional<std::int32_t> missing() const { return missing_; }

  std::int64_t floats() const { return floats_; }

 private:
  const std::int64_t floats_;
  ServersCard* const card_;
  std::map<std::int32_t, memory::GradientReader> readers_;  // key: replica
  std::set<std::int32_t> by_host_;                          // replicas whose gradients are copied to the card
  std::optional<std::int32_t> missing_;
};

}  // namespace paceline::server_process
