#include "paceline/records/tables/terminal_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "paceline/base/counted.h"
#include "paceline/base/printable.h"

namespace paceline::report {

namespace {

bool continues(unsigned char byte) { return (byte & 0xC0U) == 0x80U; }

}  // namespace

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return !continues(static_cast<unsigned char>(c)); }));
}

std::string printable(const std::string& text) { return paceline::printable(text, std::string::npos); }

std::string short_number(double number) {
  if (!std::isfinite(number)) return fmt::format("{}", number);
  static constexpr std::array kSuffixes{"", "k", "M", "G", "T"};
  std::size_t suffix = 0;
  // 999.5 would be written as 1000.
  while (std::abs(number) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    number /= 1000;
    ++suffix;
  }
  const int decimals = std::abs(number) >= 99.95 || number == 0 ? 0 : 1;
  return fmt::format("{:.{}f}{}", number, decimals, kSuffixes[suffix]);
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e10)) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string rate_text(double a_second) {
  if (!(a_second >= 100 && a_second < 1e15)) return fmt::format("{:.3g}", a_second);
  return with_thousands(std::llround(a_second));
}

std::string seconds_text(double seconds) { return fmt::format("{:.{}f}", seconds, seconds < 10 ? 2 : 1); }

std::string percent(double share, int decimals) { return fmt::format("{:.{}f}", 100 * share, decimals); }

std::string without_numbers(const std::string& text) {
  std::string words;
  for (const char c : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) words += c;
    if (digit && (words.empty() || words.back() != '#')) words += '#';
  }
  return words;
}

std::string to_string(Doing doing) {
  static constexpr std::array kNames{"joining", "computing", "waiting", "done", "gone", "ended"};
  return kNames[static_cast<std::size_t>(doing)];
}

std::string seconds_of(World world) {
  static constexpr std::array kNames{"simulated s", "virtual s", "wall s"};
  return kNames[static_cast<std::size_t>(world)];
}

std::string to_string(const Target& target) {
  if (target.metric == "accuracy") return fmt::format("accuracy ≥ {:.4g} %", 100 * target.value);
  return fmt::format("{} {} {:.4g}", printable(target.metric), target.at_most ? "≤" : "≥", target.value);
}

}  // namespace paceline::report
