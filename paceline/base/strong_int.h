// Integers that cannot be mixed up: a ReplicaId is not a Version although both are numbers.
#pragma once

#include <compare>
#include <cstdint>

#include <fmt/format.h>

namespace paceline {

template <class Tag, class Rep = std::int64_t>
class StrongInt {
 public:
  using rep = Rep;
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr StrongInt next() const { return StrongInt(value_ + 1); }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  // The distance between two points of one scale.
  friend constexpr Rep operator-(StrongInt a, StrongInt b) { return a.value_ - b.value_; }

 private:
  Rep value_ = 0;
};

}  // namespace paceline

template <class Tag, class Rep>
struct fmt::formatter<paceline::StrongInt<Tag, Rep>> : fmt::formatter<Rep> {
  template <class Context>
  auto format(paceline::StrongInt<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value(), context);
  }
};
