#include "paceline/parameters/cuda/card_buffers.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::cuda {

CardBuffers::CardBuffers(std::shared_ptr<Card> card, PieceRegistry& registry, std::string prefix,
                         std::int64_t floats)
    : card_(std::move(card)), registry_(registry), prefix_(std::move(prefix)), floats_(floats) {}

std::string CardBuffers::name(int index) const { return fmt::format("{}/{}", prefix_, index); }

absl::StatusOr<CardMemory> CardBuffers::make() const {
  PACELINE_ASSIGN_OR_RETURN(CardMemory memory,
                            CardMemory::create(card_, static_cast<std::size_t>(floats_) * sizeof(float)));
  // Another process may see it before anybody has written all of it, and the padding must be zero.
  PACELINE_ASSIGN_OR_RETURN(const CardStream stream, CardStream::create(card_));
  PACELINE_RETURN_IF_ERROR(stream.clear(memory.address(), memory.bytes()));
  PACELINE_RETURN_IF_ERROR(stream.settle());
  return memory;
}

absl::StatusOr<float*> CardBuffers::at(int index) {
  if (const auto known = pieces_.find(index); known != pieces_.end()) return known->second.as<float>();
  std::optional<FileDescriptor> descriptor = registry_.left(name(index));
  PACELINE_ASSIGN_OR_RETURN(
      CardMemory memory,
      descriptor ? CardMemory::import(card_, *descriptor, static_cast<std::size_t>(floats_) * sizeof(float))
                 : make());
  if (!descriptor) {
    PACELINE_ASSIGN_OR_RETURN(descriptor, memory.descriptor());
  }
  registry_.put(name(index), *std::move(descriptor), memory.bytes());
  return pieces_.emplace(index, std::move(memory)).first->second.as<float>();
}

void CardBuffers::free(int index) {
  registry_.remove(name(index));
  pieces_.erase(index);
}

}  // namespace paceline::cuda
