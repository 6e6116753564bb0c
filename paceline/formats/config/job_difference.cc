#include "paceline/formats/config/job_difference.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

using Keys = std::map<std::string, std::string>;

constexpr std::array<std::string_view, 8> kOfAHost = {"runs_dir",           "data.source",   "network.certs",
                                                      "network.token_file", "program.run",   "program.python",
                                                      "program.directory",  "monitor.listen"};
constexpr char kNotSaid[] = "(not said)";

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
  node.visit([&](const auto& one) { text << one; });
  all[key] = text.str();
}

Keys keys_of(const toml::table& table) {
  Keys all;
  flatten(table, "", all);
  for (const std::string_view key : kOfAHost) all.erase(std::string(key));
  return all;
}

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? kNotSaid : found->second;
}

}  // namespace

std::vector<std::string> job_differences(const std::string& ours, const std::string& theirs) {
  const auto own = parse_toml(ours, "job.toml");
  const auto other = parse_toml(theirs, "job.toml");
  if (!own.ok() || !other.ok()) {
    return {fmt::format("not a job: {}", std::string((own.ok() ? other : own).status().message()))};
  }
  const Keys own_keys = keys_of(*own);
  const Keys other_keys = keys_of(*other);
  Keys all = own_keys;
  all.insert(other_keys.begin(), other_keys.end());
  std::vector<std::string> differences;
  for (const auto& [key, value] : all) {
    const std::string one = value_of(own_keys, key);
    const std::string there = value_of(other_keys, key);
    if (one != there) differences.push_back(fmt::format("{} = {}, and there {}", key, one, there));
  }
  return differences;
}

}  // namespace paceline::config
