// The place of a command's result: the file that the user named, or - for standard output.
#pragma once

#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::cli {

// The file behind the name's links. A link stays a link.
absl::StatusOr<std::filesystem::path> behind_links(const std::string& name);

// Call this before the work, so that a result without a place costs nothing. An empty name is fine.
absl::Status check_output(const std::string& name);

// A regular file is written whole or not at all. A device or a pipe is written to, and stays a device or a
// pipe.
absl::Status write_output(const std::string& name, const std::string& text);

// Shows a table on standard output, and writes the same as JSON to a file; without a name only the table,
// with - only the JSON.
absl::Status show_with_json(const std::string& table, const std::string& json_name, const std::string& json);

}  // namespace paceline::cli
