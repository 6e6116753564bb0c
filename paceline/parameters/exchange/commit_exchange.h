// The gradients of a commit between hosts. Every host has some of its members, and every host's server one
// shard: each server sends its members' part for each other shard, and gets the other members' part for its
// own shard. A host with one member sends its gradient in place; a host with several sends their weighted
// sum. Per commit and host this is the traffic of a reduce-scatter, without a ring to form.
//
// With one member a host, sums are made in the commit's order and have the same bits as on one host.
//
// A member that is done before the others waits for its commit. Its gradient can go to the keepers meanwhile
// (send_early), so that not all members of a commit share their links at the same moment. The early gradient
// is used if the host has no other member in the commit, and then has the same bits. Otherwise the host's sum
// goes as usual, and the early gradient is dropped.
//
// If a shard is kept on several hosts, all of them get the same gradients and sum them in the same way, host
// by host: the copies are equal to the last bit.
//
// If one host keeps everything, its link would carry a gradient for each host of a commit. The sum can be
// made on the way instead: the first member's host sends its members' sum to the next one, which adds its
// own, and the last one sends the sum to the keeper. The weights go in the other direction: the keeper sends
// them to the first of these hosts, and each passes them on. So the keeper's link carries one gradient and
// one copy of the weights for each commit, and every other link at most as much each way.
//
// Used by the shard's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/exchange/gradient_traffic.h"
#include "paceline/parameters/exchange/made_blocks.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::exchange {

// One member of a commit.
struct HostMember {
  int host = 0;
  const float* gradient = nullptr;  // the whole model's; null if it is on another host, or not read
  double weight = 0;                // weight and share as in ps::Update::Member
  double share = 0;
  bool waits = true;  // whether it waits for the weights of this version
  // The number under which its host's server sent this very gradient early; 0: it did not.
  EarlyNumber early{};
};

// For each block of a part's gradients, or of its board of `floats` floats: whether versions differ in it.
// The other blocks contain only constants.
std::vector<bool> moving_blocks(const ps::Layout& part, std::int64_t floats);

class CommitExchange {
 public:
  // `parts`: the part of each host's shard. `kept`: the shards that each host keeps, its own first.
  // `on_the_way`: sums are made on the way to the first host, which keeps everything; all hosts get gradients
  // of shard 0 then. The exchange has started, and is destroyed before this object: until then it may send
  // sums from its memory.
  CommitExchange(GradientTraffic& exchange, std::vector<ps::Layout> parts, std::vector<std::vector<int>> kept,
                 int host, bool on_the_way = false);

  // Sends this host's members' part for the other shards, then lets the own shard make the version from all
  // members' gradients. `update`: everything except the members. Errors: those of the shard, and the reason
  // why other hosts' gradients do not come.
  absl::Status apply(ps::Shard& shard, ps::Update update, std::span<const HostMember> members);

  // The same in two steps, for all shards that are kept here: send() may run before the previous version is
  // prepared; prepare() lets each shard prepare the version. Requires: versions are sent in their order, and
  // prepared in their order, and at most one version is sent before the one before it is prepared everywhere.
  absl::Status send(Version version, std::span<const HostMember> members);
  absl::Status prepare(std::span<ps::Shard* const> shards, const ps::Update& update,
                       std::span<const HostMember> members);

  // This host, if it is `host`, sends the gradient of one of its workers now, before it is in a commit.
  // `gradient`: the whole model's; null if it is on another host. Requires: all hosts make this call, between
  // the same commits; a host's numbers ascend, and a commit names no number before the host's newest; sums
  // are not made on the way. The gradient may change once a commit with it is made, or once no commit can
  // have it; it stays mapped until flush().
  void send_early(int host, EarlyNumber number, const float* gradient);

  // Whether a commit still reads the gradient of this host's member. It does not if the gradient was sent
  // early and no shard is kept here: then its version may be made, and its worker may go on, before this host
  // hears of the commit.
  bool reads(const HostMember& member, std::span<const HostMember> members) const;

  // Waits until no gradient of this host is read any more. Errors: those of apply().
  absl::Status flush();

 private:
  // Another host with a part in a commit.
  struct Other {
    int host;
    GradientName gradient;
  };
  struct Gathering {
    std::vector<ps::Update::Member> members;
    std::vector<Other> others;
  };

  std::vector<const HostMember*> own_of(std::span<const HostMember> members) const;
  // The gradients from which the shard's version is made: hosts in the order of their first members.
  Gathering gather(int shard, Version version, std::span<const HostMember> members);
  void drop_early(int shard, std::span<const HostMember> members, int host);
  void await(int shard, const Gathering& from, ps::Update& update);
  void release(int shard, const Gathering& from);
  // Calls `send` for all blocks of this host's gradients for shards that other hosts keep.
  void for_each_block(const std::function<void(int to, int shard, std::int64_t begin)>& send) const;
  std::span<const float> block_of(const float* gradient, int shard, std::int64_t begin) const;
  std::span<const float> part_block(int shard, std::span<const HostMember* const> own, std::int64_t begin);
  // Writes the sum of the own members' gradients and the mean of their statistics. `share_there`: the share of other
  // members, whose sum and mean are in the memory already and become a part of the result; empty if there are none.
  void sum(int shard, std::span<const HostMember* const> own, std::int64_t begin, std::span<float> into,
           std::optional<double> share_there) const;

  // Lets the weights go to the members' hosts as they are made, if all weights are here.
  void send_as_made(ps::Update& update, std::span<const HostMember> members);
  void send_last_made(Version version);

  // The hosts on the way of a commit's sum to the keeper; none if the sum is not made on the way.
  std::vector<int> way_of(std::span<const HostMember> members) const;
  // `share_there`: the share of the members on the hosts before this one.
  absl::Status add_on_the_way(Version version, std::span<const int> way, double share_there,
                              std::span<const HostMember* const> own);

  GradientTraffic& exchange_;
  const std::vector<ps::Layout> parts_;
  const std::vector<std::vector<int>> kept_;
  const int host_;
  const bool copied_;        // whether shards are kept on several hosts
  const bool in_one_place_;  // whether one host keeps everything, and it is this one
  const bool on_the_way_;
  std::vector<std::int64_t> offsets_;  // the first float of each part in the whole model
  std::vector<std::vector<ps::Layout::Run>> runs_;
  std::vector<std::vector<bool>> moving_;
  std::vector<std::vector<float>> sums_;  // for each shard; empty before they are needed
  std::vector<std::int64_t> summed_;  // for each shard, how much is summed for the commit that was sent last
  Version sent_{};
  EarlyNumber sent_early_{};  // this host's newest number
  // A sum of this host's members and those before them, which is sent from the memory in which it arrived.
  struct Passing {
    int from;
    Version version;
  };
  std::optional<Passing> passing_;

  std::optional<MadeBlocks> made_;  // blocks of the own board; set if all weights are here
  // The last block, held back until the version is known to be good: without it no host can use the rest.
  std::span<const float> last_made_;
  std::int64_t last_made_begin_ = 0;
};

}  // namespace paceline::exchange
