#include "paceline/config/toml_text.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/config/one_line.h"

namespace paceline::config {

namespace {

absl::Status bad_set(const std::string& set, const std::string& what) {
  return absl::InvalidArgumentError(one_line(fmt::format("--set {}: {}", set, what)));
}

// The table that the last part of the key stands in; null when a part between is no table.
toml::table* make_parents(toml::table& root, const std::vector<std::string>& parts) {
  toml::table* table = &root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!table->contains(parts[i])) table->insert(parts[i], toml::table{});
    table = table->get_as<toml::table>(parts[i]);
    if (table == nullptr) return nullptr;
  }
  return table;
}

absl::Status lay_one_over(toml::table& root, const std::string& set) {
  const std::size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    return bad_set(set, "write KEY=VALUE, for example optimizer.lr=0.1");
  const std::vector<std::string> parts = absl::StrSplit(set.substr(0, equals), '.');
  toml::table* parent = make_parents(root, parts);
  if (parent == nullptr) return bad_set(set, "a part of the key is not a section");
  const std::string value = set.substr(equals + 1);
  auto parsed = parse_toml("value = " + value, "--set " + set);
  if (parsed.ok() && parsed->size() == 1) {
    parent->insert_or_assign(parts.back(), std::move(*parsed->get("value")));
  } else {
    parent->insert_or_assign(parts.back(), value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<toml::table> parse_toml(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(one_line(fmt::format(
        "{}:{}: not TOML: {}", file, error.source().begin.line, std::string(error.description()))));
  }
}

absl::Status lay_over(toml::table& table, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) PACELINE_RETURN_IF_ERROR(lay_one_over(table, set));
  return absl::OkStatus();
}

}  // namespace paceline::config
