// The weights of another host's shard, as the workers of this host read them: a board that a link fills,
// instead of a shard. For the thread that reads the link.
//
// Invariant: versions come in order and are published whole; one that is kept is not published, so it
// may come late. The first version comes with all its blocks, later ones without those that do not move,
// which are then copied here, once for each buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/exchange/message.h"
#include "paceline/memory/weight_board.h"

namespace paceline::exchange {

class Mirror {
 public:
  // `board`: of as many floats as the shard's. `moving`: by block, as the outlet has it.
  Mirror(memory::WeightWriter board, std::int64_t floats, std::vector<bool> moving)
      : board_(std::move(board)), floats_(floats), moving_(std::move(moving)) {}

  // Memory for a block of weights; nothing while another version is on its way. Errors: DataLoss when that
  // cannot come now.
  absl::StatusOr<std::optional<std::span<float>>> room(const Header& header);
  // Whether this version of the weights is no news any more.
  bool is_over(const Header& header) const {
    return header.kind == Kind::kWeights && published_ && header.version <= board_.version();
  }
  // Whether the first version, which has all blocks, is still to come.
  bool is_empty() const { return whole_.empty(); }
  // A block of the version on its way is there. That version, if it was the last block and has now been
  // published or kept. Errors: ResourceExhausted when too many are kept.
  absl::StatusOr<std::optional<Header>> arrived();

  void drop(Version version) { board_.drop(version); }
  void release_reader(int slot) { board_.release_reader(slot); }
  std::string path() const { return board_.path(); }

 private:
  struct Coming {
    Header header;  // of its first block
    std::span<float> memory;
    std::vector<bool> offered;
    std::size_t missing;  // blocks
  };

  void begin(const Header& header);
  void fill_in(std::span<float> memory);

  memory::WeightWriter board_;
  const std::int64_t floats_;
  const std::vector<bool> moving_;
  std::vector<const float*> whole_;  // buffers that hold what does not move
  bool published_ = false;           // anything
  std::optional<Coming> coming_;
};

}  // namespace paceline::exchange
