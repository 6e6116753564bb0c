// The versions of a shard in a card's memory once more in the host's memory, for workers and an evaluator that do not
// compute on that card: another card of the host, a card that only they see, or processors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/server_process/kept_memory.h"

namespace paceline::server_process {

class HostMirror {
 public:
  // With room for so many readers. It has no version before follow(), and takes no memory. `kept`: keeps it, and may
  // have that of an earlier server of the shard, which is taken up then: workers read there. null: it ends with this.
  // Errors: ResourceExhausted; what is kept is of another shard.
  static absl::StatusOr<HostMirror> create(const ps::Shard& shard, int readers, KeptMemory* kept = nullptr);

  // Publishes the shard's latest version here if it is not here yet. Errors: those of the card.
  absl::Status follow(const ps::Shard& shard);

  // Keeps a version here until drop(). Requires: the shard's board keeps it. Errors: those of the card; ResourceExhausted
  // above server::kMostKept.
  absl::Status keep(const ps::Shard& shard, Version version);
  // No effect if it is not kept.
  void drop(Version version) { board_.drop(version); }

  void release_reader(int slot) { board_.release_reader(slot); }
  std::string path() const { return board_.path(); }

 private:
  explicit HostMirror(memory::WeightWriter board) : board_(std::move(board)) {}

  memory::WeightWriter board_;
  std::optional<Version> version_;
};

}  // namespace paceline::server_process
