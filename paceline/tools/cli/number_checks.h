// Checks of the numbers of options.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <absl/strings/numbers.h>
#include <CLI/CLI.hpp>

namespace paceline::cli {

inline CLI::Validator above_zero() {
  return {[](std::string& word) {
            double number = 0;
            const bool good = absl::SimpleAtod(word, &number) && std::isfinite(number) && number > 0;
            return std::string(good ? "" : "write a number above 0");
          },
          "POSITIVE"};
}

inline CLI::Validator whole_from_zero() {
  return {[](std::string& word) {
            std::int64_t number = 0;
            const bool good = absl::SimpleAtoi(word, &number) && number >= 0;
            return std::string(good ? "" : "write a whole number from 0");
          },
          "NONNEGATIVE"};
}

}  // namespace paceline::cli
