// Where a command's result goes: the file that the user named, or - for standard output.
#pragma once

#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::cli {

// What the name stands for: the file behind its links. A link stays a link.
absl::StatusOr<std::filesystem::path> behind_links(const std::string& name);

// To be called before the work, so that a result that has no place costs nothing. An empty name is well.
absl::Status check_output(const std::string& name);

// A regular file is written whole or not at all. A device or a pipe is written to, and stays what it is.
absl::Status write_output(const std::string& name, const std::string& text);

// A table on standard output, and the same as JSON in a file; without a name the table alone, with - the JSON
// alone.
absl::Status show_with_json(const std::string& table, const std::string& json_name, const std::string& json);

}  // namespace paceline::cli
