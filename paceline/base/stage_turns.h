// Stages of a pipeline that several devices share: who computes which micro-batch, and how many each device
// has under way (1F1B-RR, one forward, one backward, round-robin: PipeDream, Narayanan et al. 2019, §3.3).
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace paceline {

// How many of `count` micro-batches are this device's. Micro-batch m belongs to the device whose turn is m
// mod `width`.
inline std::int64_t in_turn(std::int64_t count, std::size_t turn, std::size_t width) {
  const auto t = static_cast<std::int64_t>(turn), w = static_cast<std::int64_t>(width);
  return count > t ? (count - t + w - 1) / w : 0;
}

// The samples of those micro-batches, of a batch of `samples` in micro-batches of `most`.
inline std::int64_t samples_in_turn(std::int64_t samples, std::int64_t most, std::size_t turn,
                                    std::size_t width) {
  const std::int64_t count = (samples + most - 1) / most, own = in_turn(count, turn, width);
  const bool has_last =
      own > 0 && (count - 1) % static_cast<std::int64_t>(width) == static_cast<std::int64_t>(turn);
  return own * most - (has_last ? count * most - samples : 0);
}

// Whether devices of two neighbouring stages have micro-batches in common, if there are enough.
inline bool meet(std::size_t turn, std::size_t width, std::size_t other_turn, std::size_t other_width) {
  const std::size_t both = std::gcd(width, other_width);
  return turn % both == other_turn % both;
}

// Visits each two turns of neighbouring stages that meet. Each two have equally many micro-batches in common.
template <class Visit>
void for_each_meeting(std::size_t width, std::size_t other_width, Visit visit) {
  const std::size_t both = std::gcd(width, other_width);
  for (std::size_t turn = 0; turn < width; ++turn) {
    for (std::size_t other = turn % both; other < other_width; other += both) visit(turn, other);
  }
}

// How many micro-batches a device of each stage keeps between their two passes, if there are enough: one, and
// its part of all that the stage behind keeps. So a device of that stage never waits for a forward pass that
// the schedule puts after a backward pass that it has to do first. `widths`: the devices of each stage.
inline std::vector<std::int64_t> kept_at_once(const std::vector<std::size_t>& widths) {
  std::vector<std::int64_t> kept(widths.size());
  std::int64_t behind = 0;
  for (std::size_t s = widths.size(); s-- > 0;) {
    const auto width = static_cast<std::int64_t>(widths[s]);
    kept[s] = 1 + (behind + width - 1) / width;
    behind = kept[s] * width;
  }
  return kept;
}

}  // namespace paceline
