// Text of other programs and files as part of a one-line message, which may reach a terminal: no part of it may be a
// command there. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace paceline {

inline constexpr std::size_t kLongestError = 1000;  // the longest error text of another program

// The text with control characters and broken UTF-8 replaced by "?", and cut to `most` bytes, with "..." behind it
// if it was longer.
std::string printable(const std::string& text, std::size_t most = 100);

// The text, cut to `width` columns of a terminal, one a code point.
std::string fitting(const std::string& text, std::size_t width);

// Like printable() for a text of several lines, of any length.
std::string printable_lines(const std::string& text);

}  // namespace paceline
