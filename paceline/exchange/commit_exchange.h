// The gradients of a commit between hosts. Every host has some of its members, and every host's server one
// shard: each server sends its members' part for each other shard, and gets for its own shard what the
// others' members have. Of a host with one member that is its gradient as it lies there; of a host with
// several it is their weighted sum. Per commit and host that is what a reduce-scatter moves, and nobody has
// to form a ring.
//
// With one member a host, sums are made in the commit's order and have the same bits as on one host.
//
// A member that is done before the others waits for its commit. Its gradient can go to the keepers meanwhile
// (send_early), so that not all of a commit share their links at the same moment. It is used where it is what
// its host would send, and has the same bits. Where the host has more members by then their sum goes as ever,
// and what came early is dropped.
//
// Where a shard is kept on several hosts, all of them get the same and sum it the same way, hosts by hosts:
// the copies are equal to the last bit.
//
// Where one host keeps everything, its link would carry a gradient for each host of a commit. The sum can be
// made on the way there instead: the first member's host sends what its members have to the next one, which
// adds its own, and the last one sends the sum to the keeper. The weights go the other way about: the keeper
// sends them to the first of these hosts, and each passes them on. So the keeper's link carries one gradient
// and one copy of the weights for each commit, and every other link at most as much each way.
//
// One thread, that of the shard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/exchange/exchange.h"
#include "paceline/exchange/made_blocks.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/shard.h"

namespace paceline::exchange {

// One member of a commit.
struct HostMember {
  int host = 0;
  const float* gradient = nullptr;  // of the whole model; null where it is on another host, or not read
  double weight = 0;                // as ps::Update::Member has them
  double share = 0;
  bool waits = true;  // for the weights of this version
  // What its host's server called this very gradient when it sent it early; 0: it did not.
  EarlyNumber early{};
};

// Of the blocks of a part's gradients, or of its board of so many floats: those in which versions differ. The
// others are constants alone.
std::vector<bool> moving_blocks(const ps::Layout& part, std::int64_t floats);

class CommitExchange {
 public:
  // `parts`: each shard's, by host. `kept`: the shards that are kept there, by host, the own first.
  // `on_the_way`: sums are made on the way to the first host, which keeps everything; the gradients of shard
  // 0 come to all hosts then. The exchange has started, and is gone before this: until then it may send what
  // is summed here.
  CommitExchange(Exchange& exchange, std::vector<ps::Layout> parts, std::vector<std::vector<int>> kept,
                 int host, bool on_the_way = false);

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

  // The host sends that gradient of one of its workers now, which is in no commit yet; it is of the whole
  // model, and null where it is on another host. Requires: all hosts say so, between the same commits; a
  // host's numbers ascend, and a commit names none that is before the host's newest; sums are not made on the
  // way. The gradient may change once a commit with it is made, or it is never to be in one; it stays mapped
  // until flush().
  void send_early(int host, EarlyNumber number, const float* gradient);

  // Whether a commit still reads the gradient of this host's member. It does not where that has gone early
  // and no shard is kept here: then its version may be made, and its worker go on, before this host hears of
  // the commit.
  bool reads(const HostMember& member, std::span<const HostMember> members) const;

  // Waits until no gradient of this host is read any more. Errors: the same.
  absl::Status flush();

 private:
  // Who has a part in a commit, beside this host's members.
  struct Other {
    int host;
    GradientName gradient;
  };
  struct Gathering {
    std::vector<ps::Update::Member> members;
    std::vector<Other> others;
  };

  std::vector<const HostMember*> own_of(std::span<const HostMember> members) const;
  // What the shard's version is to be made of: hosts in the order of their first members.
  Gathering gather(int shard, Version version, std::span<const HostMember> members);
  void drop_early(int shard, std::span<const HostMember> members, int host);
  void await(int shard, const Gathering& from, ps::Update& update);
  void release(int shard, const Gathering& from);
  // All blocks that this host's gradients have for shards that others keep.
  void for_each_block(const std::function<void(int to, int shard, std::int64_t begin)>& send) const;
  std::span<const float> block_of(const float* gradient, int shard, std::int64_t begin) const;
  std::span<const float> part_block(int shard, std::span<const HostMember* const> own, std::int64_t begin);
  // Over what is there, or onto it.
  enum class Sum { kOver, kOnto };
  void sum(int shard, std::span<const HostMember* const> own, std::int64_t begin, std::span<float> into,
           Sum how) const;

  // Has the weights go to the members' hosts as they are made, where all are here.
  void send_as_made(ps::Update& update, std::span<const HostMember> members);
  void send_last_made(Version version);

  // The hosts on the way of a commit's sum to the keeper; none where it is not made on the way.
  std::vector<int> way_of(std::span<const HostMember> members) const;
  absl::Status add_on_the_way(Version version, std::span<const int> way,
                              std::span<const HostMember* const> own);

  Exchange& exchange_;
  const std::vector<ps::Layout> parts_;
  const std::vector<std::vector<int>> kept_;
  const int host_;
  const bool copied_;        // shards are kept on several hosts
  const bool in_one_place_;  // and that is here
  const bool on_the_way_;
  std::vector<std::int64_t> offsets_;  // of the parts in the whole
  std::vector<std::vector<ps::Layout::Run>> runs_;
  std::vector<std::vector<bool>> moving_;
  std::vector<std::vector<float>> sums_;  // for each shard; empty before they are needed
  std::vector<std::int64_t> summed_;      // how far, for the commit that was sent last
  Version sent_{};
  EarlyNumber sent_early_{};  // the newest of this host
  // A sum of this host's members and those before them, on its way from the memory that it came to.
  struct Passing {
    int from;
    Version version;
  };
  std::optional<Passing> passing_;

  std::optional<MadeBlocks> made_;  // of the own board; where all weights are here
  // What is held back until the version is known to be good: without it nobody can use the rest.
  std::span<const float> last_made_;
  std::int64_t last_made_begin_ = 0;
};

}  // namespace paceline::exchange
