#include "paceline/processes/compute/board_readers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/ps/board_buffer.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/compute/shared.h"

namespace paceline::compute {

absl::StatusOr<BoardReaders> BoardReaders::open(const wire::Boards& boards, const ps::Layout& layout,
                                                bool look_ahead) {
  const auto another_model = [] {
    return absl::InvalidArgumentError("the shards hold another model than this process built");
  };
  std::vector<Shard> shards;
  std::int64_t begin = 0;
  for (const wire::Board& board : boards.boards()) {
    PACELINE_ASSIGN_OR_RETURN(const ps::Layout part, wire::part_from_wire(board.part()));
    const std::int64_t end = begin + part.size();
    if (end > layout.size() || !(layout.part(begin, end) == part)) return another_model();
    if (part.size() == 0) continue;
    auto reader =
        memory::WeightReader::open(board.path(), ps::Shard::board_floats(part, look_ahead), boards.reader());
    if (absl::IsNotFound(reader.status())) return absl::AbortedError(reader.status().message());
    if (!reader.ok()) return reader.status();
    std::optional<memory::BoardBell> bell;
    if (!board.bell().empty()) {
      auto opened = memory::BoardBell::open(board.bell());
      if (absl::IsNotFound(opened.status())) return absl::AbortedError(opened.status().message());
      PACELINE_RETURN_IF_ERROR(opened.status());
      bell = *std::move(opened);
    }
    std::vector<ps::Layout::Range> moving;
    for (const ps::Layout::Range& range : part.moving()) {
      if (range.end > part.narrow()) moving.push_back({std::max(range.begin, part.narrow()), range.end});
    }
    shards.push_back({begin, end, part.runs(), std::move(moving), part.narrow(),
                      ps::Shard::board_floats(part, look_ahead) - ps::narrow_floats(part), board.card(),
                      board.socket(), *std::move(reader), std::move(bell)});
    begin = end;
  }
  if (begin != layout.size()) return another_model();
  BoardReaders readers(std::move(shards), layout);
  const std::vector<CardPart>& on_cards = readers.card_parts_;
  const bool one_piece = on_cards.size() == 1 && readers.shards_.size() == 1;
  if (!on_cards.empty() && !one_piece && (look_ahead || readers.joined_floats_ > 0 || layout.narrow() > 0))
    return absl::InvalidArgumentError(
        "several shards, of which a card has one, are not whole tensors of float32");
  if (on_cards.empty()) PACELINE_RETURN_IF_ERROR(readers.make_own_memory(look_ahead));
  return readers;
}

BoardReaders::BoardReaders(std::vector<Shard> shards, const ps::Layout& layout) : shards_(std::move(shards)) {
  for (const Shard& shard : shards_) {
    if (shard.reader.on_device()) card_parts_.push_back({shard.begin, shard.end, shard.card, shard.socket});
  }
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    const auto shard = std::find_if(shards_.begin(), shards_.end(),
                                    [&](const Shard& one) { return tensor.offset < one.end; });
    Place& place = tensors_.emplace_back(
        Place{tensor.offset, tensor.size, static_cast<std::size_t>(shard - shards_.begin()),
              tensor.kind == ps::TensorKind::kConstant, tensor.offset < layout.narrow(), std::nullopt});
    if (tensor.offset + tensor.size <= shard->end) continue;
    PACELINE_CHECK(!place.narrow, "{} is narrow and cut", tensor.name);
    place.joined = static_cast<std::size_t>(joined_floats_);
    // With its padding, up to which a program copies it.
    joined_floats_ +=
        (tensor.size + ps::Layout::kAlignment - 1) / ps::Layout::kAlignment * ps::Layout::kAlignment;
  }
}

absl::Status BoardReaders::make_own_memory(bool look_ahead) {
  if (joined_floats_ > 0) {
    PACELINE_ASSIGN_OR_RETURN(joined_, ipc::SharedFloats::create("paceline-joined", joined_floats_));
  }
  if (look_ahead) {
    PACELINE_ASSIGN_OR_RETURN(ahead_, ipc::SharedFloats::create("paceline-ahead", shards_.back().end));
  }
  return absl::OkStatus();
}

std::vector<engine::Memory> BoardReaders::memories() const {
  std::vector<engine::Memory> all;
  for (const Shard& shard : shards_) {
    const ipc::Mapping& buffers = shard.reader.buffers();
    // Each buffer of a card's memory is a piece of its own, which a program maps when it sees it first.
    for (int i = 0; shard.reader.on_device() && i < shard.reader.buffer_count(); ++i) {
      const std::size_t bytes = shard.reader.buffer_bytes();
      all.push_back({.path = fmt::format("board/0/{}", i),
                     .base = buffers.data() + static_cast<std::size_t>(i) * bytes,
                     .bytes = bytes,
                     .file_offset = 0,
                     .writable = false,
                     .card = shard.card,
                     .socket = shard.socket});
    }
    if (shard.reader.on_device()) continue;
    all.push_back({.path = shard.reader.path(),
                   .base = buffers.data(),
                   .bytes = buffers.size(),
                   .file_offset = memory::WeightReader::buffers_offset(),
                   .writable = false});
  }
  for (const auto& own : {&joined_, &ahead_}) {
    if (own->has_value()) all.push_back(memory_of(**own, false));
  }
  return all;
}

template <class PinOne>
std::optional<Version> BoardReaders::pin_all(PinOne pin_one) {
  std::optional<Version> lowest;
  for (Shard& shard : shards_) {
    const std::optional<memory::WeightReader::Pinned> pinned = pin_one(shard);
    if (!pinned) {
      unpin();
      return std::nullopt;
    }
    lowest = std::min(lowest.value_or(pinned->version), pinned->version);
    shard.pinned = pinned->weights;
  }
  return lowest;
}

std::optional<BoardReaders::Pinned> BoardReaders::where_they_lie(std::optional<Version> version) {
  if (!version) return std::nullopt;
  Pinned all{.version = *version, .tensors = {}, .on_card = !card_parts_.empty()};
  for (const Place& tensor : tensors_) {
    if (tensor.joined) {
      float* whole = joined_->floats().data() + *tensor.joined;
      if (!tensor.constant || !constants_joined_) join(tensor, whole);
      all.tensors.push_back(whole);
    } else {
      const Shard& shard = shards_[tensor.shard];
      const std::int64_t at = tensor.offset - shard.begin;
      const float* const weights = shard.pinned.data();
      all.tensors.push_back(
          tensor.narrow ? reinterpret_cast<const float*>(ps::narrow_part(weights + shard.narrow_begin) + at)
                        : weights + at);
    }
  }
  constants_joined_ = true;
  return all;
}

void BoardReaders::join(const Place& tensor, float* into) const {
  const std::int64_t end = tensor.offset + tensor.size;
  std::int64_t at = tensor.offset;
  for (std::size_t i = tensor.shard; at < end; ++i) {
    const Shard& shard = shards_[i];
    const std::int64_t to = std::min(end, shard.end);
    const float* const weights = shard.pinned.data();
    into = std::copy(weights + (at - shard.begin), weights + (to - shard.begin), into);
    at = to;
  }
}

std::optional<BoardReaders::Pinned> BoardReaders::pin(Version version, std::chrono::nanoseconds timeout) {
  return where_they_lie(pin_all([&](Shard& shard) { return shard.reader.pin(version, timeout); }));
}

std::optional<BoardReaders::Pinned> BoardReaders::pull_ahead(Version version, float reach,
                                                             std::chrono::nanoseconds timeout) {
  if (!card_parts_.empty()) {
    auto pinned = pin(version, timeout);
    if (!pinned || reach == 0) return pinned;
    pinned->reach = reach;
    pinned->direction = shards_.front().end;
    // Directions are those of the float32.
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      pinned->tensors[i] = shards_.front().pinned.data() + tensors_[i].offset;
    return pinned;
  }
  const std::span<float> ahead = ahead_->floats();
  const auto pulled = pin_all([&](Shard& shard) {
    const auto pinned = shard.reader.pin(version, timeout);
    if (!pinned) return pinned;
    const auto begin = static_cast<std::size_t>(shard.begin);
    const auto size = static_cast<std::size_t>(shard.end) - begin;
    const std::span<float> into = ahead.subspan(begin, size);
    if (!shard.ahead_has_constants) ps::copy_constants(shard.runs, pinned->weights, into);
    shard.ahead_has_constants = true;
    const std::span<const float> weights = pinned->weights.first(size);
    const std::span<const float> direction = pinned->weights.subspan(size, size);
    ps::look_ahead(shard.moving, weights, direction, reach, into);
    const auto narrow = static_cast<std::size_t>(shard.narrow);
    ps::look_ahead(weights.first(narrow), direction.first(narrow), reach,
                   std::span(ps::narrow_part(ahead.data()) + begin, narrow));
    shard.reader.unpin();
    return pinned;
  });
  if (!pulled) return std::nullopt;
  Pinned all{.version = *pulled, .tensors = {}};
  for (const Place& tensor : tensors_) {
    all.tensors.push_back(tensor.narrow
                              ? reinterpret_cast<const float*>(ps::narrow_part(ahead.data()) + tensor.offset)
                              : ahead.data() + tensor.offset);
  }
  return all;
}

std::optional<BoardReaders::Pinned> BoardReaders::pin_exactly(Version version) {
  return where_they_lie(pin_all([&](Shard& shard) { return shard.reader.pin_exactly(version); }));
}

void BoardReaders::unpin() {
  for (Shard& shard : shards_) shard.reader.unpin();
}

void BoardReaders::ring() {
  for (Shard& shard : shards_) shard.bell ? shard.bell->ring() : shard.reader.ring();
}

bool BoardReaders::published(Version version) const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [&](const Shard& shard) { return shard.reader.version() >= version; });
}

}  // namespace paceline::compute
