// The gradients of a commit between hosts. Every host has some of its members, and every host's server one
// shard: each server sends its members' part for each other shard, and gets for its own shard what the
// others' members have. Of a host with one member that is its gradient as it lies there; of a host with
// several it is their weighted sum. Per commit and host that is what a reduce-scatter moves, and nobody has
// to form a ring.
//
// With one member a host, sums are made in the commit's order and have the same bits as on one host.
//
// One thread, that of the shard.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/exchange/exchange.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/shard.h"

namespace paceline::exchange {

// One member of a commit.
struct HostMember {
  int host = 0;
  const float* gradient = nullptr;  // of the whole model; null where it is on another host
  double weight = 0;                // as ps::Update::Member has them
  double share = 0;
};

class CommitExchange {
 public:
  // `parts`: each shard's, by host. The exchange has started, and outlives this.
  CommitExchange(Exchange& exchange, std::vector<ps::Layout> parts, int host);

  // Sends what this host's members have for the other shards, then has the own shard make the version of all
  // members' gradients. `update` is what it is beside its members. Errors: those of the shard, and why the
  // others' gradients do not come.
  absl::Status apply(ps::Shard& shard, ps::Update update, std::span<const HostMember> members);

  // Waits until no gradient of this host is read any more. Errors: likewise.
  absl::Status flush();

 private:
  absl::Status send(Version version, std::span<const HostMember> members);
  std::span<const float> part_block(int host, std::span<const HostMember* const> own, std::int64_t begin);
  void sum(int host, std::span<const HostMember* const> own, std::int64_t begin, std::span<float> into) const;

  Exchange& exchange_;
  const std::vector<ps::Layout> parts_;
  const int host_;
  std::vector<std::int64_t> offsets_;  // of the parts in the whole
  std::vector<std::vector<ps::Layout::Run>> runs_;
  std::vector<std::vector<float>> sums_;  // for each other host's shard; empty before they are needed
};

}  // namespace paceline::exchange
