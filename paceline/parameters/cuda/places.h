// Places in one piece of memory, one after the other, each where every type may lie.
#pragma once

#include <cstddef>

namespace paceline::cuda {

class Places {
 public:
  // The byte at which so many values begin.
  template <class Value>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(Value) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::size_t bytes_ = 0;
};

}  // namespace paceline::cuda
