#include "paceline/base/counted.h"

#include <fmt/format.h>

namespace paceline {

std::string with_thousands(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string counted(std::int64_t number, const std::string& thing) {
  return fmt::format("{} {}{}", with_thousands(number), thing, number == 1 ? "" : "s");
}

}  // namespace paceline
