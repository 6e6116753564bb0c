// The progress of a rank, as one word that can be published at once: the number of an attempt, and of the
// steps finished in it.
#pragma once

#include <cstdint>
#include <optional>

namespace paceline::collective {

inline constexpr int kStepBits = 28;
inline constexpr std::int64_t kMostSteps = (std::int64_t{1} << kStepBits) - 1;

// Requires: 0 ≤ steps ≤ kMostSteps, 0 ≤ attempt < 2³⁶.
constexpr std::uint64_t progress_word(std::int64_t attempt, std::int64_t steps) {
  return static_cast<std::uint64_t>(attempt) << kStepBits | static_cast<std::uint64_t>(steps);
}

// Steps finished in this attempt: none while the word is of an earlier one, nothing when it is of a later
// one.
constexpr std::optional<std::int64_t> steps_in(std::uint64_t word, std::int64_t attempt) {
  const auto is = static_cast<std::int64_t>(word >> kStepBits);
  if (is > attempt) return std::nullopt;
  return is < attempt ? 0 : static_cast<std::int64_t>(word & static_cast<std::uint64_t>(kMostSteps));
}

}  // namespace paceline::collective
