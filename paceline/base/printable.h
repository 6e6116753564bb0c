// Text of other programs and files as part of a one-line message. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace paceline {

inline constexpr std::size_t kLongestError = 1000;  // the longest error text of another program

// The text without control characters, and cut to `most` bytes, with "..." behind it if it was longer.
std::string printable(const std::string& text, std::size_t most = 100);

}  // namespace paceline
