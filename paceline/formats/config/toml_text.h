// TOML text, and settings of single keys over it.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <toml++/toml.h>

namespace paceline::config {

// Errors: InvalidArgument with file, line and what is wrong.
absl::StatusOr<toml::table> parse_toml(const std::string& text, const std::string& file);

// Sets each "a.b.c=value" in the table, making the tables between. A value that is not TOML is taken as a
// text. Errors: InvalidArgument that quotes the setting.
absl::Status lay_over(toml::table& table, const std::vector<std::string>& sets);

// The text as a string of TOML, with its quotes.
std::string in_quotes(const std::string& text);

}  // namespace paceline::config
