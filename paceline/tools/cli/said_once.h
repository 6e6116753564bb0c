// A command line says each key of the job once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

namespace paceline::cli {

// `option` with `value` (empty: not given) sets the job's `key`. Errors: InvalidArgument if one of `sets`
// sets it too.
inline absl::Status check_said_once(const std::string& option, const std::string& value,
                                    const std::string& key, const std::vector<std::string>& sets) {
  const auto same = std::find_if(sets.begin(), sets.end(),
                                 [&](const std::string& set) { return set.starts_with(key + "="); });
  if (value.empty() || same == sets.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} {} and --set {} say the same key; write one of them", option, value, *same));
}

}  // namespace paceline::cli
