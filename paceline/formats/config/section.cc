#include "paceline/formats/config/section.h"

#include <algorithm>
#include <cmath>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/likely_meant.h"
#include "paceline/base/one_line.h"
#include "paceline/formats/config/origin.h"

namespace paceline::config {

namespace {

std::string advise(const std::string& key, const std::set<std::string>& known) {
  if (const auto meant = likely_meant(key, known)) return fmt::format("did you mean '{}'?", *meant);
  return fmt::format("known here: {}", absl::StrJoin(known, ", "));
}

}  // namespace

const std::string* Complaints::set_of(const std::string& key) const {
  const auto found = std::find_if(sets_.rbegin(), sets_.rend(), [&](const std::string& set) {
    const std::string name = set.substr(0, set.find('='));
    return key == name || key.starts_with(name + ".");
  });
  return found == sets_.rend() ? nullptr : &*found;
}

// The --set that made the key's table.
const std::string* Complaints::set_below(const std::string& key) const {
  const auto found = std::find_if(sets_.rbegin(), sets_.rend(),
                                  [&](const std::string& set) { return set.starts_with(key + "."); });
  return found == sets_.rend() ? nullptr : &*found;
}

std::string Complaints::place_of(const toml::node* node, const std::string& key) const {
  const std::string* set = set_of(key);
  if (set == nullptr && node != nullptr && node->source().begin.line == 0) set = set_below(key);
  // If a --set sets more than this key, the key follows it.
  const bool says_more = set != nullptr && !set->starts_with(key);
  if (set != nullptr && of_user_) return "--set " + *set + (says_more ? ": " + key : "");
  const bool has_line = node != nullptr && set == nullptr && file_ != kCommandLine;
  const auto line = has_line ? node->source().begin.line : 0;
  return fmt::format("{}{}: {}", file_, line > 0 ? fmt::format(":{}", line) : "", key);
}

void Complaints::add(const toml::node* node, const std::string& key, const std::string& what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(one_line(fmt::format("{}: {}", place_of(node, key), what)));
}

void Complaints::add_unknown(const toml::node* node, const std::string& section, const std::string& name,
                             const std::set<std::string>& known) {
  if (!status_.ok()) return;
  const std::string key = section.empty() ? name : section + "." + name;
  add(node, key, "unknown key; " + advise(name, known));
  // A key from a --set stands in no table of the file.
  if (!section.empty() && set_of(key) == nullptr) below_ = Below{section, name, place_of(node, key)};
}

void Complaints::look_above(const toml::table& root, const std::set<std::string>& known) {
  if (!below_ || !known.contains(below_->name)) return;
  const std::string header = below_->section.substr(0, below_->section.find('.'));
  const toml::node* table = root.get(header);
  const bool several = table != nullptr && table->is_array();
  status_ = absl::InvalidArgumentError(
      one_line(fmt::format("{}: belongs at the top of the file; move it above {}{}{}", below_->place,
                           several ? "[[" : "[", header, several ? "]]" : "]")));
}

std::string Section::full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

const toml::node* Section::find(const std::string& key) {
  known_.insert(key);
  complaints_.ask_for(full(key));
  return table_ == nullptr ? nullptr : table_->get(key);
}

bool Section::has(const std::string& key) { return find(key) != nullptr; }

void Section::refuse(const std::string& key, const std::string& what) {
  const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
  if (node != nullptr) complaints_.add(node, full(key), what);
}

void Section::complain(const std::string& key, const std::string& what) {
  complaints_.add(find(key), full(key), what);
}

std::int64_t Section::integer(const std::string& key, std::int64_t otherwise, std::int64_t least,
                              std::int64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return otherwise;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= least && value->get() <= most) return value->get();
  complain(key, fmt::format("write a whole number from {} to {}", least, most));
  return otherwise;
}

double Section::number(const std::string& key, double otherwise, double least, double most,
                       const char* what) {
  const toml::node* node = find(key);
  if (node == nullptr) return otherwise;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (value && std::isfinite(*value) && *value >= least && *value <= most) return *value;
  complain(key, fmt::format("write a number from {} to {}{}{}", least, most, what == nullptr ? "" : ": ",
                            what == nullptr ? "" : what));
  return otherwise;
}

bool Section::boolean(const std::string& key, bool otherwise) {
  const toml::node* node = find(key);
  if (node == nullptr) return otherwise;
  if (node->is_boolean()) return *node->value<bool>();
  complain(key, "write true or false");
  return otherwise;
}

std::string Section::text(const std::string& key, const std::string& otherwise) {
  const toml::node* node = find(key);
  if (node == nullptr) return otherwise;
  if (node->is_string()) return *node->value<std::string>();
  complain(key, "write a text in quotes");
  return otherwise;
}

std::size_t Section::choice(const std::string& key, std::size_t otherwise,
                            const std::vector<std::string>& choices) {
  if (!has(key)) return otherwise;
  const std::string value = text(key, choices[otherwise]);
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  complain(key, fmt::format("'{}' is unknown; write one of: {}", value, absl::StrJoin(choices, ", ")));
  return otherwise;
}

std::vector<double> Section::numbers(const std::string& key, double least, double most) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<double> values;
  const auto* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto value = array->get(i)->is_number() ? array->get(i)->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < least || *value > most) break;
    values.push_back(*value);
  }
  if (array != nullptr && values.size() == array->size()) return values;
  complain(key, fmt::format("write a list of numbers from {} to {}, for example [100, 150]", least, most));
  return {};
}

std::vector<std::int64_t> Section::integers(const std::string& key, std::int64_t least, std::int64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<std::int64_t> values;
  const auto* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto value = array->get(i)->value_exact<std::int64_t>();
    if (!value || *value < least || *value > most) break;
    values.push_back(*value);
  }
  if (array != nullptr && values.size() == array->size()) return values;
  complain(key, fmt::format("write a list of whole numbers from {} to {}", least, most));
  return {};
}

std::vector<std::pair<double, double>> Section::pairs(const std::string& key, double most_first,
                                                      double most_second) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<std::pair<double, double>> values;
  const auto number = [](const toml::array& pair, std::size_t at, double most) -> std::optional<double> {
    const auto value = pair.get(at)->is_number() ? pair.get(at)->value<double>() : std::nullopt;
    return value && std::isfinite(*value) && *value >= 0 && *value <= most ? value : std::nullopt;
  };
  const auto* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto* pair = array->get(i)->as_array();
    if (pair == nullptr || pair->size() != 2) break;
    const auto first = number(*pair, 0, most_first);
    const auto second = number(*pair, 1, most_second);
    if (!first || !second) break;
    values.emplace_back(*first, *second);
  }
  if (array != nullptr && values.size() == array->size()) return values;
  complain(key, fmt::format(
                    "write pairs of numbers from 0 to {} and from 0 to {}, for example [[0, 1], [2.5, 0.1]]",
                    most_first, most_second));
  return {};
}

std::vector<std::string> Section::texts(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<std::string> values;
  const auto* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto value = array->get(i)->value_exact<std::string>()) values.push_back(*value);
  }
  if (array != nullptr && values.size() == array->size()) return values;
  complain(key, "write a list of texts, for example [\"1\", \"2\"]");
  return {};
}

std::vector<std::vector<std::string>> Section::groups(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<std::vector<std::string>> values;
  const auto add = [](const toml::node& one, std::vector<std::string>& to) {
    const auto value = one.value_exact<std::string>();
    if (value) to.push_back(*value);
    return value.has_value();
  };
  const auto* array = node->as_array();
  bool good = array != nullptr;
  for (std::size_t i = 0; good && i < array->size(); ++i) {
    std::vector<std::string>& group = values.emplace_back();
    const auto* several = array->get(i)->as_array();
    if (several == nullptr) {
      good = add(*array->get(i), group);
      continue;
    }
    for (std::size_t k = 0; k < several->size(); ++k) good = good && add(*several->get(k), group);
    good = good && !group.empty();
  }
  if (good) return values;
  complain(key, "write a list of names, or of lists of names, for example [\"w0\", [\"w1\", \"w2\"]]");
  return {};
}

const toml::table* Section::table(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (!node->is_table()) complain(key, fmt::format("write it as a section, [{}]", full(key)));
  return node->as_table();
}

std::vector<const toml::table*> Section::tables(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  std::vector<const toml::table*> found;
  const auto* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto* table = array->get(i)->as_table()) found.push_back(table);
  }
  if (array != nullptr && found.size() == array->size()) return found;
  complain(key,
           fmt::format("write each as a section of its own, [[{0}]], or all of them with --set '{0}=[{{…}}]'",
                       full(key)));
  return {};
}

void Section::finish() {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : *table_) {
    const std::string name(key.str());
    if (!known_.contains(name)) complaints_.add_unknown(&node, path_, name, known_);
  }
  if (path_.empty()) complaints_.look_above(*table_, known_);
}

}  // namespace paceline::config
