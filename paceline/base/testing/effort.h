// How much of a long test to do: all of it, and a part under sanitizers. They make code ten to thirty times
// slower and look for other mistakes than the test does: of those, a part of the runs shows as much.
#pragma once

#include <cstdint>

namespace paceline::effort {

// For a long test of decisions whose code other tests run too: under sanitizers it shows nothing more.
#ifdef PACELINE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The most ways to try, of all ways in which a test can go.
inline constexpr std::int64_t kMostWays = kSanitized ? 2'000 : INT64_MAX;

// The runs to do, of `runs` random ones.
constexpr std::uint64_t part_of(std::uint64_t runs) { return kSanitized ? (runs + 9) / 10 : runs; }

}  // namespace paceline::effort
