// The message of a status as a string that can be formatted and kept.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline {

inline std::string message_of(const absl::Status& status) { return std::string(status.message()); }

}  // namespace paceline
