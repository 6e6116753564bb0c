// Errors are one line, even if they quote a text from outside.
#pragma once

#include <algorithm>
#include <string>

namespace paceline {

// The text with a blank for each control character.
inline std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

}  // namespace paceline
