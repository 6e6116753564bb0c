// Narrow tensors: programs write their gradients and read their weights as bfloat16. Layout::narrow() says which they
// are. A shard has their weights and its state as float32 all the same.
#pragma once

#include <cstdint>

namespace paceline::ps {

// The upper half of a float32. step_math.h converts.
using Bfloat16 = std::uint16_t;

inline const Bfloat16* narrow_part(const float* memory) { return reinterpret_cast<const Bfloat16*>(memory); }
inline Bfloat16* narrow_part(float* memory) { return reinterpret_cast<Bfloat16*>(memory); }

// The places of a gradient's elements: narrow[i] of a narrow tensor, and wide[i] of any other.
struct GradientPlace {
  const float* wide = nullptr;
  const Bfloat16* narrow = nullptr;

  // The places of a part that begins with this element.
  GradientPlace from(std::int64_t element) const { return {wide + element, narrow + element}; }
};

// In the host's memory each float has its place in any case, and pages that nobody touches cost nothing. Narrow elements
// lie at the start. They overlap no other, because narrow tensors come first.
inline GradientPlace host_gradient(const float* memory) { return {memory, narrow_part(memory)}; }

// In a card's memory the other elements follow right behind the narrow ones.
inline std::int64_t card_gradient_floats(std::int64_t floats, std::int64_t narrow) {
  return floats - narrow / 2;
}
inline GradientPlace card_gradient(const float* memory, std::int64_t narrow) {
  return {memory - narrow / 2, narrow_part(memory)};
}

}  // namespace paceline::ps
