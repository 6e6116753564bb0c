// The new weights of this host's shard on their way to one other host: the latest version whenever a worker
// there waits for a version that has not been sent, and no other, so that a fast shard does not fill a slow
// link with versions that nobody reads. Used by the thread that hears the links.
//
// Invariant: one version at a time is under way; published versions go in order; a version to be kept goes
// beside them, as soon as it can. Blocks that do not move go with the first version alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/parameters/exchange/message.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::exchange {

class Outlet {
 public:
  // Sends one block; calls back once its memory may change.
  using Send = std::function<void(const Header&, std::span<const float>, std::function<void()> sent)>;

  // `reader`: reads the shard's board, in a slot of its own. `moving`: for each block of that board, whether
  // versions differ in it.
  Outlet(memory::WeightReader reader, std::vector<bool> moving, Send send)
      : reader_(std::move(reader)), moving_(std::move(moving)), send_(std::move(send)) {}

  // A worker there waits for this version.
  void want(Version version);
  // The shard has published this version.
  void published(Version version);
  // A worker there will want that version once it is published. True if its blocks can go before: nothing is
  // under way, and the first version, which has more blocks, has been sent.
  bool expect(Version version);
  // The version goes there without this outlet.
  void sent(Version version);
  // The shard keeps this version, and that host is to keep it too.
  void keep(Version version);

 private:
  void go_on();
  void send(Kind kind, const memory::WeightReader::Pinned& pinned);

  memory::WeightReader reader_;
  const std::vector<bool> moving_;
  const Send send_;
  std::optional<Version> wanted_;
  std::optional<Version> published_;
  std::optional<Version> sent_;
  std::deque<Version> to_keep_;
  bool sent_whole_ = false;  // whether a version went with all its blocks
  std::size_t blocks_under_way_ = 0;
};

}  // namespace paceline::exchange
