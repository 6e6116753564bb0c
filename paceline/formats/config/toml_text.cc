#include "paceline/formats/config/toml_text.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/one_line.h"
#include "paceline/base/status_macros.h"

namespace paceline::config {

namespace {

absl::Status bad_set(const std::string& set, const std::string& what) {
  return absl::InvalidArgumentError(one_line(fmt::format("--set {}: {}", set, what)));
}

struct Parents {
  toml::table* table;  // the one that holds the last part of the key; null if an earlier part is not a table
  std::size_t parts;   // how many parts come before that earlier part
  bool is_list = false;  // whether that earlier part is a list
};

Parents make_parents(toml::table& root, const std::vector<std::string>& parts) {
  toml::table* table = &root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!table->contains(parts[i])) table->insert(parts[i], toml::table{});
    toml::node* node = table->get(parts[i]);
    table = node->as_table();
    if (table == nullptr) return {nullptr, i, node->is_array()};
  }
  return {table, parts.size()};
}

// The error for a key below one that is no section.
absl::Status not_a_section(const std::string& set, const std::vector<std::string>& parts,
                           const Parents& wrong, const std::string& value) {
  const auto end = parts.begin() + static_cast<std::ptrdiff_t>(wrong.parts) + 1;
  const std::string section = absl::StrJoin(parts.begin(), end, ".");
  if (!wrong.is_list)
    return bad_set(set, fmt::format("'{}' is no section, and has no keys below it", section));
  const std::string key = absl::StrJoin(end, parts.end(), ".");
  const bool plain = parse_toml("value = " + value, "").ok();
  return bad_set(set, fmt::format("[[{0}]] is a list; set all of it, for example --set '{0}=[{{{1}={2}}}]'",
                                  section, key, plain ? value : fmt::format("\"{}\"", value)));
}

absl::Status lay_one_over(toml::table& root, const std::string& set) {
  const std::size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    return bad_set(set, "write KEY=VALUE, for example optimizer.lr=0.1");
  const std::vector<std::string> parts = absl::StrSplit(set.substr(0, equals), '.');
  const std::string value = set.substr(equals + 1);
  const Parents made = make_parents(root, parts);
  toml::table* parent = made.table;
  if (parent == nullptr) return not_a_section(set, parts, made, value);
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

std::string in_quotes(const std::string& text) {
  std::string inside;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') inside += '\\';
    inside += code < 0x20 || code == 0x7f ? fmt::format("\\u{:04x}", code) : std::string(1, letter);
  }
  return '"' + inside + '"';
}

}  // namespace paceline::config
