// The parts of a buffer of a shard's board: the weights; behind them their direction, if replicas look ahead
// (look_ahead.h); and at the end the weights of narrow tensors once more, as programs read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::ps {

// Two narrow elements have the room of a float.
inline std::int64_t narrow_floats(const Layout& layout) { return layout.narrow() / 2; }

inline std::int64_t board_floats(const Layout& layout, bool look_ahead) {
  return layout.size() * (look_ahead ? 2 : 1) + narrow_floats(layout);
}

// Empty if nobody looks ahead.
template <class Float>
std::span<Float> direction_in(const Layout& layout, std::span<Float> buffer) {
  const auto floats = static_cast<std::size_t>(layout.size());
  return buffer.size() < 2 * floats ? std::span<Float>() : buffer.subspan(floats, floats);
}

// Null if the layout has no narrow tensor.
template <class Float>
auto narrow_in(const Layout& layout, std::span<Float> buffer) -> decltype(narrow_part(buffer.data())) {
  if (layout.narrow() == 0) return nullptr;
  return narrow_part(buffer.data() + buffer.size() - narrow_floats(layout));
}

}  // namespace paceline::ps
