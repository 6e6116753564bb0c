// PACELINE_CHECK: for bugs of ours only. Always on; prints and aborts. What the world does wrong is an
// absl::Status, and bytes from outside are never checked with this.
#pragma once

#include <string>

#include <fmt/format.h>

namespace paceline {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);
}  // namespace paceline

// PACELINE_CHECK(condition, "format", arguments…): the message is formatted only when the check fails.
#define PACELINE_CHECK(condition, ...)                                                      \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::paceline::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
