// Errors of readers are one line, whatever they read.
#pragma once

#include <string_view>

#include <absl/status/status.h>

#include "paceline/base/check.h"

namespace paceline::testing {

// Aborts where the status says nothing, or more than a line.
inline void check_one_line(const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  PACELINE_CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "{}", message);
}

}  // namespace paceline::testing
