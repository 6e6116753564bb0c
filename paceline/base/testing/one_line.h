// Errors of readers are one line, whatever they read.
#pragma once

#include <string_view>

#include <absl/status/status.h>

#include "paceline/base/check.h"

namespace paceline::testing {

// Aborts if the status has no text, or more than a line, or does not begin with the file that was read.
inline void check_one_line(const absl::Status& status, std::string_view file = "") {
  const std::string_view message(status.message().data(), status.message().size());
  PACELINE_CHECK(!message.empty() && message.starts_with(file) && message.find('\n') == message.npos, "{}",
                 message);
}

}  // namespace paceline::testing
