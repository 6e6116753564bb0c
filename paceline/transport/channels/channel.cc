#include "paceline/transport/channels/channel.h"

namespace paceline::channels {

std::size_t slot_stride(const ChannelSize& size) {
  return (static_cast<std::size_t>(size.slot_bytes) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Counts go round after 2³², which must be a whole number of rounds through the slots.
bool sane(const ChannelSize& size) {
  return size.slots >= 1 && size.slots <= kMostSlots && kMostSlots % size.slots == 0 && size.slot_bytes >= 0;
}

}  // namespace paceline::channels
