// What the parts of an attempt say to people.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::coordinator {

inline constexpr char kNotAllHeld[] = "the servers that came have not all parts of a newer version";

inline std::string message_of(const absl::Status& status) { return std::string(status.message()); }

}  // namespace paceline::coordinator
