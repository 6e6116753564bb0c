// The weights of another host's shard for the workers of this host: a board that a link fills, instead of a
// shard. Used by the thread that reads the link.
//
// Invariant: versions come in order and are published whole; one that is kept is not published, so it may
// come late. The first version comes with all its blocks, later ones without those that do not move, which
// are then copied here, once for each buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/exchange/message.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::exchange {

class Mirror {
 public:
  // `board`: has as many floats as the shard's. `moving`: for each block, as in the outlet.
  Mirror(memory::WeightWriter board, std::int64_t floats, std::vector<bool> moving)
      : board_(std::move(board)), floats_(floats), moving_(std::move(moving)) {}

  // Memory for a block of weights; nothing while another version is under way, or the memory is_filling(). Errors:
  // DataLoss if this block cannot come now.
  absl::StatusOr<std::optional<std::span<float>>> room(const Header& header);
  // Whether the memory of the next version lacks blocks that do not move. Each call of room() copies some of them: all
  // at once would keep this thread's links silent for too long.
  bool is_filling() const { return filling_.has_value(); }
  // True if nobody here needs the block: this version or a later one is published already, or a later one is under
  // way. If the block waited for that one, the link that both come over could fill with such blocks, and the later
  // version would never be whole.
  bool is_over(const Header& header) const {
    if (header.kind != Kind::kWeights) return false;
    const bool published = published_ && header.version <= board_.version();
    const bool later_comes =
        coming_ && coming_->header.kind == Kind::kWeights && header.version < coming_->header.version;
    return published || later_comes;
  }
  // True until the first version, which has all blocks, has come.
  bool is_empty() const { return whole_.empty(); }
  // Call when a block has arrived. Returns the version's header if this completed it; the version is then
  // published or kept. Errors: ResourceExhausted if too many are kept.
  absl::StatusOr<std::optional<Header>> arrived();

  void drop(Version version) { board_.drop(version); }
  void release_reader(int slot) { board_.release_reader(slot); }
  std::string path() const { return board_.path(); }

 private:
  struct Coming {
    Header header;  // its first block's header
    std::span<float> memory;
    std::vector<bool> offered;
    std::size_t missing;  // the number of missing blocks
  };

  struct Filling {
    std::span<float> memory;
    std::size_t block = 0;  // the first one that it lacks
  };

  // False if the memory is still being filled.
  bool begin(const Header& header);
  bool fill_in(Filling& filling);

  memory::WeightWriter board_;
  const std::int64_t floats_;
  const std::vector<bool> moving_;
  std::vector<const float*> whole_;  // buffers that have the blocks that do not move
  bool published_ = false;           // whether any version was
  std::optional<Filling> filling_;
  std::optional<Coming> coming_;
};

}  // namespace paceline::exchange
