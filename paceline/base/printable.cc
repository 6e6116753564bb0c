#include "paceline/base/printable.h"

#include <algorithm>

namespace paceline {

std::string printable(const std::string& text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  const auto within_character = [&] { return (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; };
  while (end > 0 && end < text.size() && within_character()) --end;
  std::string clean = text.substr(0, end);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text.size() > most ? clean + "..." : clean;
}

}  // namespace paceline
