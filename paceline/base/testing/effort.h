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
#ifdef PACELINE_SANITIZED
inline constexpr std::int64_t kMostWays = 2'000;
#else
inline constexpr std::int64_t kMostWays = INT64_MAX;
#endif

// Of so many random runs, those to do.
#ifdef PACELINE_SANITIZED
constexpr std::uint64_t part_of(std::uint64_t runs) { return (runs + 9) / 10; }
#else
constexpr std::uint64_t part_of(std::uint64_t runs) { return runs; }
#endif

}  // namespace paceline::testing
