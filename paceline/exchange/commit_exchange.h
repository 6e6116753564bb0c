// The gradients of a commit between hosts. Every host has some of its members, and every host's server one
// shard: each server sends its members' part for each other shard, and gets for its own shard what the
// others' members have. Of a host with one member that is its gradient as it lies there; of a host with
// several it is their weighted sum. Per commit and host that is what a reduce-scatter moves, and nobody has
// to form a ring.
//
// With one member a host, sums are made in the commit's order and have the same bits as on one host.
//
// Where a shard is kept on several hosts, all of them get the same and sum it the same way, hosts by hosts:
// the copies are equal to the last bit.
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

// Of the blocks of a part's gradients, or of its board of so many floats: those in which versions differ. The
// others are constants alone.
std::vector<bool> moving_blocks(const ps::Layout& part, std::int64_t floats);

class CommitExchange {
 public:
  // `parts`: each shard's, by host. `kept`: the shards that are kept there, by host, the own first. The
  // exchange has started, and is gone before this: until then it may send what is summed here.
  CommitExchange(Exchange& exchange, std::vector<ps::Layout> parts, std::vector<std::vector<int>> kept,
                 int host);

  // Sends what this host's members have for the other shards, then has the own shard make the version of all
  // members' gradients. `update` is what it is beside its members. Errors: those of the shard, and why the
  // others' gradients do not come.
  absl::Status apply(ps::Shard& shard, ps::Update update, std::span<const HostMember> members);

  // The same in two steps, for all shards that are kept here: sends, which may be done before the version
  // before it is prepared; and has each prepare the version. Requires: versions are sent, and prepared, in
  // their order, and no more than the next one is sent before one is prepared everywhere.
  absl::Status send(Version version, std::span<const HostMember> members);
  absl::Status prepare(std::span<ps::Shard* const> shards, const ps::Update& update,
                       std::span<const HostMember> members);

  // Waits until no gradient of this host is read any more. Errors: the same.
  absl::Status flush();

 private:
  // Who has a part in a commit, beside this host's members.
  struct Gathering {
    std::vector<ps::Update::Member> members;
    std::vector<int> others;  // hosts
  };

  std::vector<const HostMember*> own_of(std::span<const HostMember> members) const;
  // What the shard's version is to be made of: hosts in the order of their first members.
  Gathering gather(int shard, Version version, std::span<const HostMember> members);
  void await(int shard, const Gathering& from, ps::Update& update);
  void release(int shard, const Gathering& from, Version version);
  std::span<const float> part_block(int shard, std::span<const HostMember* const> own, std::int64_t begin);
  void sum(int shard, std::span<const HostMember* const> own, std::int64_t begin,
           std::span<float> into) const;

  Exchange& exchange_;
  const std::vector<ps::Layout> parts_;
  const std::vector<std::vector<int>> kept_;
  const int host_;
  const bool copied_;                  // shards are kept on several hosts
  std::vector<std::int64_t> offsets_;  // of the parts in the whole
  std::vector<std::vector<ps::Layout::Run>> runs_;
  std::vector<std::vector<bool>> moving_;
  std::vector<std::vector<float>> sums_;  // for each shard; empty before they are needed
  std::vector<std::int64_t> summed_;      // how far, for the commit that was sent last
  Version sent_{};
};

}  // namespace paceline::exchange
