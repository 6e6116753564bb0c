#include "paceline/base/printable.h"

#include <algorithm>

namespace paceline {

namespace {

bool continues(unsigned byte) { return (byte & 0xC0U) == 0x80U; }

// The bytes of the code point that starts at `at`; 0 if it is broken or a control character.
std::size_t length_of_printable(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const std::size_t length = lead >= 0xF5 ? 0 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(byte(at + i))) return 0;
  }
  const bool control = lead == 0xC2 && byte(at + 1) < 0xA0;  // U+0080 to U+009F: some terminals obey them
  return control ? 0 : length;
}

}  // namespace

std::string printable(const std::string& text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && continues(static_cast<unsigned char>(text[end]))) --end;
  const std::string part = text.substr(0, end);
  std::string clean;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t length = length_of_printable(part, at);
    clean += length > 0 ? part.substr(at, length) : "?";
    at += std::max<std::size_t>(length, 1);
  }
  return text.size() > most ? clean + "..." : clean;
}

std::string fitting(const std::string& text, std::size_t width) {
  std::size_t begun = 0;
  const auto end = std::find_if(text.begin(), text.end(), [&](char c) {
    return !continues(static_cast<unsigned char>(c)) && ++begun > width;
  });
  return {text.begin(), end};
}

std::string printable_lines(const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += printable(text.substr(at, end - at), std::string::npos);
    if (end < text.size()) lines += '\n';
    at = end + 1;
  }
  return lines;
}

}  // namespace paceline
