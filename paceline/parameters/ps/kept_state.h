// The optimizer's state of a shard in memory that outlives its process, so that an unfinished update can be finished.
//
// An update goes through the state in pieces, and each thread has a chain of them. A chain has one slot more than it has
// pieces: step j reads its piece in slot j and writes it to slot j − 1, which the step before has read and which is
// therefore in the processor's first-level cache. So no piece is copied, and the old values of the piece that is being
// made are whole. A counter of the chain's steps says where each piece is and which version it has. Whenever the process
// is killed, the next one does the steps that are not counted.
//
// Invariants
//  1. A step that is counted has written its piece of the state, and of the weights in the board's buffer that was
//     taken for that version. The values that the chain's next step reads are whole.
//  2. The update of a version is always the same: same gradients, same numbers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/ps/kept_versions.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::ps {

struct KeptShape {
  // In floats. What a step reads and writes, and what the step before read, stay in a first-level cache of 32 kB.
  // Pieces of 1,024 floats take a quarter more time under Adam.
  static constexpr std::int64_t kPiece = 512;

  // Requires: not is_tensorwise(kind). `threads`: the most that step at a time. `piece`: in floats, a multiple of Layout::kAlignment.
  static KeptShape of(const Layout& layout, OptimizerKind kind, int threads, std::int64_t piece = kPiece);

  // The pieces of one thread.
  struct Chain {
    std::size_t begin, end;  // pieces [begin, end)
    std::int64_t place;      // place of its slots in a stream, in floats
  };

  int streams = 1;
  std::int64_t floats = 0;              // floats of a stream
  std::vector<Layout::Range> pieces{};  // have all that commits change, in order
  std::vector<Chain> chains{};
  std::int64_t slot_floats = 0;
};

class KeptState {
  struct Progress;

 public:
  static constexpr std::size_t kMostStreams = 2;

  // The state is zero at first. `identity`: a number for the shard, its run and its attempt. Errors:
  // ResourceExhausted.
  static absl::StatusOr<KeptState> create(KeptShape shape, std::uint64_t identity);
  // Memory that create() made with the same arguments, maybe in a process that is gone. Errors: InvalidArgument if
  // the memory is not such.
  static absl::StatusOr<KeptState> adopt(ipc::SharedMemory memory, KeptShape shape, std::uint64_t identity);

  std::size_t chains() const { return shape_.chains.size(); }

  // A piece and its state; a stream that the optimizer does not have is null.
  struct Place {
    std::size_t piece = 0;
    Layout::Range range{};
    std::array<float*, kMostStreams> before{};  // values of the version before, which stay
    std::array<float*, kMostStreams> state{};   // places of the next ones
  };
  // All pieces; `before` is where they are. Requires: no update is begun and not made.
  std::vector<Place> places() const;

  // The state as it is belongs to a first version, after updates whose fractions have this sum. Requires: no step yet.
  void start(Version version, double fractions) { versions().start(version, fractions); }

  // The update of the next version begins, or goes on. `fractions`: the sum with this update's.
  void begin(Version version, double fractions) { versions().begin(version, fractions); }
  // Goes through the pieces of a chain that do not have a version. One thread for each chain.
  class Walk {
   public:
    // The next piece, which may be stepped now; null if all have the version.
    const Place* next() const;
    // Counts the step of that piece. `finite`: whether all numbers of the piece are.
    void made(bool finite);

   private:
    friend class KeptState;
    Walk(KeptState& state, std::size_t chain, Version version);
    void go_on();

    KeptState& state_;
    const KeptShape::Chain& chain_;
    Progress& progress_;
    Version version_;
    std::int64_t steps_ = 0, end_ = 0, slot_ = 0;
    std::array<float*, kMostStreams> first_slot_{};
    Place place_;
  };
  // Requires: begin() of that version.
  Walk walk(std::size_t chain, Version version) { return Walk(*this, chain, version); }
  // Requires: all pieces have the version of the latest begin().
  bool finite(Version version) const { return versions().finite(version); }

  struct Left {
    double fractions = 0;  // sum of the fractions up to the published version
    bool begun = false;    // whether pieces of the next version are there
  };
  // Steps that were not counted are taken again. `published`: the version of the shard's board. Errors: InvalidArgument if this is not
  // the state of that version.
  absl::StatusOr<Left> take_up(Version published) const;

  const ipc::SharedMemory& memory() const { return memory_; }

  // Whether a part of the version may be in memory that begins with a KeptVersions. False if it cannot be read: then nobody
  // takes it up. Requires: as KeptVersions::has_begun().
  static bool has_begun(const ipc::SharedMemory& memory, Version version);

 private:
  KeptState(ipc::SharedMemory memory, ipc::Mapping mapping, KeptShape shape)
      : memory_(std::move(memory)), mapping_(std::move(mapping)), shape_(std::move(shape)) {}
  static std::size_t table_bytes(const KeptShape& shape);
  static std::size_t bytes(const KeptShape& shape);
  KeptVersions& versions() const;
  Progress& progress(std::size_t chain) const;
  float* stream(int index) const;
  // The place of the piece that this step of the chain makes.
  Place place_of(const KeptShape::Chain& chain, std::int64_t step) const;

  ipc::SharedMemory memory_;
  ipc::Mapping mapping_;
  KeptShape shape_;
};

}  // namespace paceline::ps
