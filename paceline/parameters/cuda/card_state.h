// The optimizer's state of a shard in a card's memory.
//
// A state that outlives its process lies in slots, as ps/kept_state.h says of the host's memory. An update makes it
// chunk by chunk, each in a launch of its own, and the new values of a chunk go to the slot that the launch before has
// read. After each launch the stream writes how many chunks were made. A stream carries out its work in order, so the
// old values of a chunk that is not counted are whole whenever the process is killed, and the next process makes that
// chunk again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/parameters/ps/stepper.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::cuda {

struct CardStateShape {
  // The pieces that one launch steps.
  struct Chunk {
    std::int32_t first_piece = 0, piece_count = 0;
    std::int64_t begin = 0;                   // position of the first float of its slot
    std::vector<ps::Layout::Range> ranges{};  // floats with a state; a statistic has none
  };

  // One chunk, whose new values replace the old ones. `floats`: of the shard.
  static CardStateShape in_place(std::span<const Piece> pieces, std::int64_t floats, int streams);
  // Chunks of at most `chunk_floats`; 0: most_floats_of_a_chunk(). Requires: pieces are in order.
  static CardStateShape in_slots(std::span<const Piece> pieces, std::int64_t floats, int streams,
                                 std::int64_t chunk_floats = 0);
  // The slot that is one too many takes at most a 32nd of a large state. A launch of fewer floats would not keep a card
  // busy.
  static std::int64_t most_floats_of_a_chunk(std::int64_t floats);

  std::int64_t slot_count() const { return static_cast<std::int64_t>(chunks.size()) + (has_slots ? 1 : 0); }
  std::size_t bytes() const;

  int streams = 1;
  bool has_slots = false;
  std::int64_t floats = 0;  // the shard's
  std::int64_t slot_floats = 0;
  std::vector<Chunk> chunks{};
};

// The count nearest to `near` with these low 32 bits: a card's word has no more of it.
std::int64_t counted_near(std::int64_t near, std::uint32_t low);

class CardState {
 public:
  // Memory that an earlier process left.
  struct Left {
    ipc::SharedMemory page;
    CardMemory memory;
  };

  // The state is zero at first. The stream outlives this. Errors: the card has no room.
  static absl::StatusOr<CardState> create(std::shared_ptr<Card> card, const CardStream& stream,
                                          CardStateShape shape, std::uint64_t identity);
  // Memory that create() made with the same arguments. Errors: InvalidArgument if it is not such.
  static absl::StatusOr<CardState> adopt(const CardStream& stream, CardStateShape shape,
                                         std::uint64_t identity, Left left);

  // A chunk of the state and the places of its floats, as if a stream began with position 0 of the shard.
  struct Place {
    const CardStateShape::Chunk& chunk;
    std::array<float*, 2> state{};  // places of the next values
    std::array<const float*, 2>
        before{};  // values of the version before, which stay; null: they are in `state`
  };
  // The places of the values, in `state`. Requires: no update is begun and not made.
  std::vector<Place> places() const;

  absl::Status write(const ps::StateStreams& state);
  absl::StatusOr<ps::StateStreams> read() const;

  // The same as ps::KeptState's.
  void start(Version version, double fractions);
  absl::StatusOr<ps::KeptState::Left> take_up(Version published);

  // Makes the chunks that do not have the version yet. `launch` puts the step of a chunk into the stream.
  absl::Status make(Version version, double fractions,
                    const std::function<absl::Status(const Place&)>& launch);
  // The word that kernels mark; zero when the first chunk of a version is made.
  std::uint32_t* marks() const { return memory_.as<std::uint32_t>() + 1; }

  // Null if the state is in place: it ends with its process then.
  const ipc::SharedMemory* page() const { return page_ ? &*page_ : nullptr; }
  const CardMemory& memory() const { return memory_; }

 private:
  CardState(const CardStream& stream, CardStateShape shape, CardMemory memory)
      : stream_(&stream), shape_(std::move(shape)), memory_(std::move(memory)) {}
  // The place of the chunk that this step makes.
  Place place_of(std::int64_t step) const;
  DevicePointer slot(int stream, std::int64_t slot) const;
  ps::KeptVersions& versions() const { return ps::KeptVersions::in(mapping_.data()); }

  const CardStream* stream_;
  CardStateShape shape_;
  CardMemory memory_;  // the number of steps, the marks, and the streams' slots
  std::optional<ipc::SharedMemory> page_;
  ipc::Mapping mapping_;
  std::int64_t steps_ = 0;  // steps that the stream has been given
};

}  // namespace paceline::cuda
