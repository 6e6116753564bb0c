#include "paceline/parameters/cuda/card_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::cuda {

namespace {

constexpr std::size_t kWordBytes = 256;  // the words before the streams
constexpr std::int64_t kLeastFloats = std::int64_t{8} << 20;
constexpr std::int64_t kMostChunks = 32;
constexpr std::int64_t kAlignment = 64;  // floats

std::int64_t aligned(std::int64_t floats) { return (floats + kAlignment - 1) / kAlignment * kAlignment; }

CardStateShape::Chunk chunk_of(std::span<const Piece> pieces, std::size_t first, std::size_t last) {
  CardStateShape::Chunk chunk{.first_piece = static_cast<std::int32_t>(first),
                              .piece_count = static_cast<std::int32_t>(last - first)};
  for (const Piece& piece : pieces.subspan(first, last - first)) {
    if (piece.kind == kStatisticPiece) continue;
    if (!chunk.ranges.empty() && chunk.ranges.back().end == piece.begin) {
      chunk.ranges.back().end += piece.size;
    } else {
      chunk.ranges.push_back({piece.begin, piece.begin + piece.size});
    }
  }
  return chunk;
}

}  // namespace

std::int64_t CardStateShape::most_floats_of_a_chunk(std::int64_t floats) {
  return std::max(kLeastFloats, (floats + kMostChunks - 1) / kMostChunks);
}

CardStateShape CardStateShape::in_place(std::span<const Piece> pieces, std::int64_t floats, int streams) {
  return {.streams = streams,
          .floats = floats,
          .slot_floats = aligned(floats),
          .chunks = {chunk_of(pieces, 0, pieces.size())}};
}

CardStateShape CardStateShape::in_slots(std::span<const Piece> pieces, std::int64_t floats, int streams,
                                        std::int64_t chunk_floats) {
  if (chunk_floats == 0) chunk_floats = most_floats_of_a_chunk(floats);
  CardStateShape shape{.streams = streams, .has_slots = true, .floats = floats};
  for (std::size_t first = 0; first < pieces.size();) {
    // Kernels read four floats at a time where a position is a multiple of 4, so a slot begins at such a position.
    const std::int64_t begin = pieces[first].begin / kAlignment * kAlignment;
    std::size_t last = first;
    std::int64_t end = begin;
    do {
      end = pieces[last].begin + pieces[last].size;
      ++last;
    } while (last < pieces.size() && pieces[last].begin + pieces[last].size - begin <= chunk_floats);
    shape.chunks.push_back(chunk_of(pieces, first, last));
    shape.chunks.back().begin = begin;
    shape.slot_floats = std::max(shape.slot_floats, aligned(end - begin));
    first = last;
  }
  return shape;
}

std::int64_t counted_near(std::int64_t near, std::uint32_t low) {
  return near + static_cast<std::int32_t>(low - static_cast<std::uint32_t>(near));
}

std::size_t CardStateShape::bytes() const {
  return kWordBytes + static_cast<std::size_t>(streams * slot_count() * slot_floats) * sizeof(float);
}

absl::StatusOr<CardState> CardState::create(std::shared_ptr<Card> card, const CardStream& stream,
                                            CardStateShape shape, std::uint64_t identity) {
  PACELINE_ASSIGN_OR_RETURN(CardMemory memory, CardMemory::create(std::move(card), shape.bytes()));
  PACELINE_RETURN_IF_ERROR(stream.clear(memory.address(), shape.bytes()));
  PACELINE_RETURN_IF_ERROR(stream.settle());
  CardState state(stream, std::move(shape), std::move(memory));
  if (!state.shape_.has_slots) return state;
  PACELINE_ASSIGN_OR_RETURN(state.page_, ipc::SharedMemory::create("paceline-state", ipc::kPageBytes));
  PACELINE_ASSIGN_OR_RETURN(state.mapping_, state.page_->map(0, ipc::kPageBytes, true));
  ps::KeptVersions::create(state.mapping_.data(), identity);
  return state;
}

absl::StatusOr<CardState> CardState::adopt(const CardStream& stream, CardStateShape shape,
                                           std::uint64_t identity, Left left) {
  PACELINE_CHECK(shape.has_slots, "a state in place was left");
  if (left.page.size() != ipc::kPageBytes || left.memory.bytes() < shape.bytes())
    return absl::InvalidArgumentError("the optimizer's state is of another model");
  CardState state(stream, std::move(shape), std::move(left.memory));
  PACELINE_ASSIGN_OR_RETURN(state.mapping_, left.page.map(0, ipc::kPageBytes, true));
  state.page_ = std::move(left.page);
  if (!state.versions().is(identity))
    return absl::InvalidArgumentError("the optimizer's state is of another shard or of another attempt");
  std::uint32_t steps = 0;
  PACELINE_RETURN_IF_ERROR(stream.download(&steps, state.memory_.address(), sizeof steps));
  state.steps_ = steps;
  return state;
}

DevicePointer CardState::slot(int stream, std::int64_t slot) const {
  const std::int64_t before = stream * shape_.slot_count() + slot;
  return memory_.address() + kWordBytes +
         static_cast<DevicePointer>(before * shape_.slot_floats) * sizeof(float);
}

CardState::Place CardState::place_of(std::int64_t step) const {
  const auto chunks = static_cast<std::int64_t>(shape_.chunks.size());
  const CardStateShape::Chunk& chunk = shape_.chunks[static_cast<std::size_t>(step % chunks)];
  Place place{.chunk = chunk};
  const DevicePointer first = static_cast<DevicePointer>(chunk.begin) * sizeof(float);
  for (int i = 0; i < shape_.streams; ++i) {
    const auto at = [&](std::int64_t slot_number) {
      return reinterpret_cast<float*>(slot(i, slot_number % shape_.slot_count()) - first);
    };
    const auto stream = static_cast<std::size_t>(i);
    place.state[stream] = at(shape_.has_slots ? step + chunks : 0);
    if (shape_.has_slots) place.before[stream] = at(step);
  }
  return place;
}

std::vector<CardState::Place> CardState::places() const {
  std::vector<Place> places;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape_.chunks.size()); ++i) {
    Place place = place_of(steps_ + i);
    for (std::size_t stream = 0; stream < place.state.size(); ++stream) {
      if (place.before[stream] != nullptr)
        place.state[stream] = const_cast<float*>(std::exchange(place.before[stream], nullptr));
    }
    places.push_back(place);
  }
  return places;
}

absl::Status CardState::write(const ps::StateStreams& state) {
  for (const Place& place : places()) {
    for (std::size_t stream = 0; stream < state.size(); ++stream) {
      for (const auto& [begin, end] : place.chunk.ranges) {
        PACELINE_RETURN_IF_ERROR(stream_->copy_to_card(
            reinterpret_cast<DevicePointer>(place.state[stream] + begin), state[stream].data() + begin,
            static_cast<std::size_t>(end - begin) * sizeof(float)));
      }
    }
  }
  return stream_->settle();
}

absl::StatusOr<ps::StateStreams> CardState::read() const {
  ps::StateStreams state(static_cast<std::size_t>(shape_.streams),
                         std::vector<float>(static_cast<std::size_t>(shape_.floats)));
  for (const Place& place : places()) {
    for (std::size_t stream = 0; stream < state.size(); ++stream) {
      for (const auto& [begin, end] : place.chunk.ranges) {
        PACELINE_RETURN_IF_ERROR(stream_->download(
            state[stream].data() + begin, reinterpret_cast<DevicePointer>(place.state[stream] + begin),
            static_cast<std::size_t>(end - begin) * sizeof(float)));
      }
    }
  }
  return state;
}

void CardState::start(Version version, double fractions) {
  if (shape_.has_slots) versions().start(version, fractions);
}

absl::Status CardState::make(Version version, double fractions,
                             const std::function<absl::Status(const Place&)>& launch) {
  const auto chunks = static_cast<std::int64_t>(shape_.chunks.size());
  std::int64_t end = steps_ + chunks;
  if (shape_.has_slots) {
    versions().begin(version, fractions);
    end = versions().updates_to(version) * chunks;
    PACELINE_CHECK(steps_ >= end - chunks && steps_ <= end, "{} steps of {} chunks for version {}", steps_,
                   chunks, version);
  }
  if (steps_ == end - chunks)
    PACELINE_RETURN_IF_ERROR(stream_->set_word(reinterpret_cast<DevicePointer>(marks()), 0));
  while (steps_ < end) {
    PACELINE_RETURN_IF_ERROR(launch(place_of(steps_)));
    ++steps_;
    if (shape_.has_slots)
      PACELINE_RETURN_IF_ERROR(stream_->set_word(memory_.address(), static_cast<std::uint32_t>(steps_)));
  }
  return absl::OkStatus();
}

// Bytes that another process left are not trusted: a count that does not fit the version is an error.
absl::StatusOr<ps::KeptState::Left> CardState::take_up(Version published) {
  if (!shape_.has_slots)
    return absl::FailedPreconditionError("the state of this shard's optimizer ended with its process");
  const std::optional<double> fractions = versions().fractions_of(published);
  const auto chunks = static_cast<std::int64_t>(shape_.chunks.size());
  const std::int64_t before = fractions ? versions().updates_to(published) * chunks : 0;
  steps_ = counted_near(before, static_cast<std::uint32_t>(steps_));
  if (!fractions || steps_ < before || steps_ > before + chunks)
    return absl::InvalidArgumentError(fmt::format("no state of version {} is left", published));
  return ps::KeptState::Left{.fractions = *fractions, .begun = steps_ > before};
}

}  // namespace paceline::cuda
