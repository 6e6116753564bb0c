#include "paceline/formats/config/job_difference.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

using Keys = std::map<std::string, std::string>;

constexpr std::array<std::string_view, 8> kOfAHost = {"runs_dir",           "data.source",   "network.certs",
                                                      "network.token_file", "program.run",   "program.python",
                                                      "program.directory",  "monitor.listen"};
// The way to the same training on this host, if it moves.
constexpr std::array<std::string_view, 3> kMoves = {"program.python", "network.certs", "network.token_file"};
constexpr char kNotSaid[] = "(not said)";

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void flatten(const toml::node& node, const std::string& key, Keys& all) {
  if (const toml::table* table = node.as_table()) {
    for (const auto& [name, one] : *table) {
      const std::string word(name.str());
      flatten(one, key.empty() ? word : key + "." + word, all);
    }
    return;
  }
  if (const toml::array* array = node.as_array(); array != nullptr && array->is_array_of_tables()) {
    for (std::size_t i = 0; i < array->size(); ++i)
      flatten(*array->get(i), fmt::format("{}[{}]", key, i), all);
    return;
  }
  std::ostringstream text;
  // Whether a number was written as 0x10 or 16 makes no other job.
  if (const auto* number = node.as_integer()) {
    text << number->get();
  } else {
    node.visit([&](const auto& one) { text << one; });
  }
  all[key] = text.str();
}

Keys keys_of(const toml::table& table) {
  Keys all;
  flatten(table, "", all);
  return all;
}

std::optional<std::string> value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string JobDifference::in_words() const {
  return fmt::format("{} = {}, and there {}", key, ours.value_or(kNotSaid), theirs.value_or(kNotSaid));
}

bool JobDifference::is_of_host() const { return is_one_of(kOfAHost, key); }

absl::StatusOr<std::vector<JobDifference>> all_job_differences(const std::string& ours,
                                                               const std::string& theirs) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table own, parse_toml(ours, "job.toml"));
  PACELINE_ASSIGN_OR_RETURN(const toml::table other, parse_toml(theirs, "job.toml"));
  const Keys own_keys = keys_of(own);
  const Keys other_keys = keys_of(other);
  Keys all = own_keys;
  all.insert(other_keys.begin(), other_keys.end());
  std::vector<JobDifference> differences;
  for (const auto& [key, value] : all) {
    JobDifference one{key, value_of(own_keys, key), value_of(other_keys, key)};
    if (one.ours != one.theirs) differences.push_back(std::move(one));
  }
  return differences;
}

std::optional<std::vector<std::string>> moved_settings(const std::string& now, const std::string& before) {
  if (now == before) return std::vector<std::string>();
  const auto differences = all_job_differences(now, before);
  if (!differences.ok()) return std::nullopt;
  std::vector<std::string> sets;
  for (const JobDifference& one : *differences) {
    if (!is_one_of(kMoves, one.key) || !one.ours || !one.theirs) return std::nullopt;
    sets.push_back(one.key + "=" + *one.ours);
  }
  return sets;
}

std::vector<std::string> job_differences(const std::string& ours, const std::string& theirs) {
  const auto all = all_job_differences(ours, theirs);
  if (!all.ok()) return {fmt::format("not a job: {}", std::string(all.status().message()))};
  std::vector<std::string> differences;
  for (const JobDifference& one : *all) {
    if (!one.is_of_host()) differences.push_back(one.in_words());
  }
  return differences;
}

}  // namespace paceline::config
