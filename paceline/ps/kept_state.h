// The optimizer's state of a shard in memory that outlives its process, with a log to undo an unfinished update.
//
// An update goes through the pieces of the state. It saves the old values of a piece in the log, steps the piece in
// its place, and then names the version that the piece has. So whenever the process is killed, each piece is of the
// published version, or of the next one, or the log brings it back. The next process makes only the missing pieces.
//
// Invariants
//  1. A piece that names a version has the state of that version, unless the log has older values of it. The same
//     holds for the piece's weights in the board's buffer that was taken for that version.
//  2. The update of a version is always the same: same gradients, same numbers.
//
// The log holds one piece for each thread, but no more than the state.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/memory/shared_memory.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/update_rule.h"

namespace paceline::ps {

struct KeptShape {
  static constexpr std::int64_t kPiece = 1 << 13;  // floats: a piece and its log stay in a processor's cache

  // `threads`: the most that step at a time. `piece`: in floats, a multiple of Layout::kAlignment.
  static KeptShape of(const Layout& layout, OptimizerKind kind, int threads, std::int64_t piece = kPiece);

  int streams = 1;
  std::int64_t floats = 0;              // floats of a stream
  std::vector<Layout::Range> pieces{};  // all that commits change, in order; tensors, if is_tensorwise(kind)
  std::int64_t log_floats = 0;          // floats of the log, for each stream
  std::int64_t place_floats = 0;  // floats of a thread's place in the log; 0: each piece has its own place
};

class KeptState {
 public:
  // The state is zero at first. `identity`: a number for the shard, its run and its attempt. Errors:
  // ResourceExhausted.
  static absl::StatusOr<KeptState> create(KeptShape shape, std::uint64_t identity);
  // Memory that create() made with the same arguments, maybe in a process that is gone. Errors: InvalidArgument if
  // the memory is not such.
  static absl::StatusOr<KeptState> adopt(memory::SharedMemory memory, KeptShape shape,
                                         std::uint64_t identity);

  const std::vector<Layout::Range>& pieces() const { return shape_.pieces; }
  // The places of the streams.
  std::vector<std::span<float>> streams() const;

  // The state as it is belongs to a first version, after updates whose fractions have this sum.
  void start(Version version, double fractions);

  // The update of the next version begins, or goes on. `fractions`: the sum with this update's.
  void begin(Version version, double fractions);
  // True if the piece has that version already. Any thread.
  bool has(std::size_t piece, Version version) const;
  // Called before a piece changes. `thread`: a number below KeptShape's `threads` that no other thread has now.
  void save(std::size_t piece, int thread);
  // Called once the piece has this version. `finite`: whether all of its numbers are. Any thread.
  void made(std::size_t piece, Version version, bool finite);
  // Requires: all pieces have the version of the latest begin().
  bool finite(Version version) const;

  struct Left {
    double fractions = 0;  // sum of the fractions up to the published version
    bool begun = false;    // whether pieces of the next version are there
  };
  // Undoes pieces that were not finished. `published`: the version of the shard's board. Errors: InvalidArgument if
  // this is not the state of that version.
  absl::StatusOr<Left> take_up(Version published);

  const memory::SharedMemory& memory() const { return memory_; }

 private:
  struct Header;
  struct Piece;
  KeptState(memory::SharedMemory memory, memory::Mapping mapping, KeptShape shape)
      : memory_(std::move(memory)), mapping_(std::move(mapping)), shape_(std::move(shape)) {}
  static std::size_t table_bytes(const KeptShape& shape);
  static std::size_t bytes(const KeptShape& shape);
  Header& header() const;
  Piece& piece(std::size_t index) const;
  float* stream(int index) const;
  float* log(int stream) const;

  memory::SharedMemory memory_;
  memory::Mapping mapping_;
  KeptShape shape_;
};

}  // namespace paceline::ps
