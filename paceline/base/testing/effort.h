// How much of a long test to do: all of it, and a part under sanitizers. They make code ten to thirty times
// slower and look for other mistakes than the test does: of those, a part of the runs shows as much.
#pragma once

#include <cstdint>

namespace paceline::testing {

// For a long test of what is decided, whose code other tests run too: under sanitizers it shows nothing more.
#ifdef PACELINE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Of all ways in which a test can go, the most to try.
inline constexpr std::int64_t kMostWays = kSanitized ? 2'000 : INT64_MAX;

// Of so many random runs, those to do.
constexpr std::uint64_t part_of(std::uint64_t runs) { return kSanitized ? (runs + 9) / 10 : runs; }

}  // namespace paceline::testing
