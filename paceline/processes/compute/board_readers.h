// The published weights of all shards as one replica's tensors, in place or with look-ahead. A tensor that is
// cut between shards is put together in memory of this object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/computing/engine/engine.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::compute {

// A part of the model whose weights lie in a card's memory, and so does a gradient of it. Floats [begin, end) of the
// whole.
struct CardPart {
  std::int64_t begin, end;
  std::string card, socket;  // engine::Memory says what these are
};

class BoardReaders {
 public:
  // `look_ahead`: the job's; with it, directions are behind the weights. Errors: Aborted if a shard's server is gone: the
  // next one says where its board is; a board is another model's; the parts do not fit the model's `layout`.
  static absl::StatusOr<BoardReaders> open(const wire::Boards& boards, const ps::Layout& layout,
                                           bool look_ahead);

  struct Pinned {
    Version version;                    // the lowest of the shards'
    std::vector<const float*> tensors;  // one a tensor of the whole layout, in its order
    bool on_card = false;               // engine::Weights says what these are
    float reach = 0;
    std::int64_t direction = 0;

    engine::Weights weights() const {
      engine::Weights weights(tensors);
      weights.on_card = on_card;
      weights.reach = reach;
      weights.direction = direction;
      return weights;
    }
  };
  // A version ≥ `version` of every shard, until unpin(); nullopt if they are not there within `timeout`.
  std::optional<Pinned> pin(Version version, std::chrono::nanoseconds timeout);
  // The same, moved this far along its direction, in memory of this object that stays valid until the next
  // call; then no version is pinned. Weights in a card's memory are pinned as they are, and the engine moves them.
  // Requires: look_ahead.
  std::optional<Pinned> pull_ahead(Version version, float reach, std::chrono::nanoseconds timeout);
  // Exactly this version, which the shards keep.
  std::optional<Pinned> pin_exactly(Version version);
  void unpin();
  // Every shard has published it, or a later one.
  bool published(Version version) const;
  // Rings at every shard's board that its server hears.
  void ring();
  // All memory that the pointers of a Pinned may point into.
  std::vector<engine::Memory> memories() const;
  // The parts in cards' memory, in their order.
  const std::vector<CardPart>& card_parts() const { return card_parts_; }

 private:
  struct Shard {
    std::int64_t begin;  // begin of its part in the whole, in floats
    std::int64_t end;
    std::vector<ps::Layout::Run> runs;      // runs of the part
    std::vector<ps::Layout::Range> moving;  // ranges of the part that commits change, but for narrow tensors
    std::int64_t narrow;                    // floats [0, narrow) of the part are narrow
    std::int64_t narrow_begin;              // their begin in a buffer, in floats
    std::string card, socket;               // empty: the host's memory has it
    memory::WeightReader reader;
    std::optional<memory::BoardBell> bell;  // nothing: the server hears that of the reader's board
    std::span<const float> pinned{};        // the buffer of the version that was pinned last
    bool ahead_has_constants = false;
  };
  // A tensor, from `shard` on.
  struct Place {
    std::int64_t offset;  // in the whole, in floats
    std::int64_t size;
    std::size_t shard;
    bool constant;
    bool narrow;
    std::optional<std::size_t> joined;  // offset in joined_, if the tensor is cut
  };
  BoardReaders(std::vector<Shard> shards, const ps::Layout& layout);
  absl::Status make_own_memory(bool look_ahead);
  template <class PinOne>
  std::optional<Version> pin_all(PinOne pin_one);
  std::optional<Pinned> where_they_lie(std::optional<Version> version);
  void join(const Place& tensor, float* into) const;

  std::vector<Shard> shards_;
  std::vector<Place> tensors_;
  std::int64_t joined_floats_ = 0;
  std::optional<ipc::SharedFloats> joined_;  // tensors that are cut; nothing where none is
  // weights ahead, in the whole layout; nothing unless the job looks ahead
  std::optional<ipc::SharedFloats> ahead_;
  bool constants_joined_ = false;
  std::vector<CardPart> card_parts_;
};

}  // namespace paceline::compute
