// What the parts of the coordinator say to people.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <fmt/format.h>

namespace paceline::rpc {

inline constexpr char kNotAllHeld[] = "the servers that came have not all parts of a newer version";

inline std::string message_of(const absl::Status& status) { return std::string(status.message()); }

// As after a message that is none, or one that is too long.
inline std::string silent_visit(const std::string& peer) {
  return fmt::format("refused a process at {}: it ended without a word that makes sense", peer);
}

}  // namespace paceline::rpc
