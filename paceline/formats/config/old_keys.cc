#include "paceline/formats/config/old_keys.h"

#include <array>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "paceline/formats/config/cgp_keys.h"
#include "paceline/formats/config/optimizer_settings.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

struct OldKey {
  const char* table;  // "": the top of the file; a list of tables counts as one
  const char* old_name;
  const char* name;
  const char* write;
};

constexpr std::array kOldKeys{OldKey{"", "replica", "device", "[[device]]"},
                              OldKey{"cluster", "replicas", "copies", "copies"},
                              OldKey{"change", "replica", "device", "device"}};

// Calls visit(table) for each table that may have the key.
template <class Root, class Visit>
void each_table(Root& root, const OldKey& key, const Visit& visit) {
  if (*key.table == '\0') return visit(root);
  auto* node = root.get(key.table);
  if (node == nullptr) return;
  if (auto* table = node->as_table()) return visit(*table);
  auto* list = node->as_array();
  if (list == nullptr) return;
  for (auto& one : *list) {
    if (auto* table = one.as_table()) visit(*table);
  }
}

bool rename(toml::table& table, const OldKey& key) {
  toml::node* found = table.get(key.old_name);
  if (found == nullptr || table.contains(key.name)) return false;
  table.insert(key.name, std::move(*found));
  table.erase(key.old_name);
  return true;
}

}  // namespace

void refuse_old_keys(const toml::table& root, Complaints& complaints) {
  for (const OldKey& key : kOldKeys) {
    each_table(root, key, [&](const toml::table& table) {
      const toml::node* found = table.get(key.old_name);
      if (found == nullptr) return;
      const std::string name =
          *key.table == '\0' ? key.old_name : fmt::format("{}.{}", key.table, key.old_name);
      complaints.add(found, name, fmt::format("is called {} now; write {}", key.name, key.write));
    });
  }
}

std::string with_current_keys(const std::string& job_toml) {
  auto root = parse_toml(job_toml, "job.toml");
  if (!root.ok()) return job_toml;
  bool changed = false;
  for (const OldKey& key : kOldKeys) {
    each_table(*root, key, [&](toml::table& table) { changed |= rename(table, key); });
  }
  changed |= take_out_what_keys_say(*root);
  changed |= take_out_settings_of_others(*root);
  if (!changed) return job_toml;
  std::ostringstream out;
  out << *root << '\n';
  return out.str();
}

}  // namespace paceline::config
