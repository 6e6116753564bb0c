#include "paceline/formats/config/cgp_keys.h"

#include <algorithm>
#include <array>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/time.h"
#include "paceline/decisions/policy/policy_text.h"

namespace paceline::config {

namespace {

struct CgpKey {
  const char* option;  // in the policy's text
  const char* key;     // in [sync]
};

constexpr std::array kCgpKeys{CgpKey{"k_min", "k_min"},       CgpKey{"k_max", "k_max"},
                              CgpKey{"S", "staleness"},       CgpKey{"wait_max", "wait_max_ms"},
                              CgpKey{"patience", "patience"}, CgpKey{"d", "delay"},
                              CgpKey{"grouping", "grouping"}};

// Whether a part of a policy's text gives that option: "patience=0.2" gives "patience".
auto is_option(const char* option) {
  return [begin = std::string(option) + "="](const std::string& part) { return part.starts_with(begin); };
}

// If one of two values counted without a word, two policies of a comparison could train as the same one.
void check_said_once(Section& sync, const std::string& policy_text) {
  const policy::PolicyText words(policy_text);
  for (const auto& [option, key] : kCgpKeys) {
    const bool in_text = std::any_of(words.parts.begin(), words.parts.end(), is_option(option));
    if (in_text && sync.has(key))
      sync.complain(key,
                    fmt::format("policy '{}' says {} too; say it in one of them only", policy_text, option));
  }
}

}  // namespace

void read_cgp_keys(Section& sync, const std::string& policy_text, policy::PolicySpec& policy) {
  constexpr std::int64_t kMost = 1'000'000;
  policy::CgpSpec forgotten;
  auto* said = std::get_if<policy::CgpSpec>(&policy);
  if (said != nullptr) check_said_once(sync, policy_text);
  policy::CgpSpec& cgp = said != nullptr ? *said : forgotten;
  cgp.k_min = sync.integer("k_min", cgp.k_min, 1, kMost);
  if (sync.has("k_max")) cgp.k_max = sync.integer("k_max", 1, 1, kMost);
  if (sync.has("staleness")) cgp.staleness = sync.integer("staleness", 0, 0, kMost);
  if (sync.has("wait_max_ms")) cgp.wait_max = from_seconds(sync.number("wait_max_ms", 0, 0, 1e9) / 1000);
  const auto grouping = sync.choice("grouping", static_cast<std::size_t>(cgp.grouping),
                                    {to_string(policy::Grouping::kNatural),
                                     to_string(policy::Grouping::kWindow), to_string(policy::Grouping::kDp)});
  cgp.grouping = static_cast<policy::Grouping>(grouping);
  cgp.patience =
      sync.number("patience", cgp.patience, 0, 1, "the share of their iterations' time that replicas wait");
  cgp.delay = sync.number("delay", cgp.delay, 0, 1);
  if (cgp.k_min > cgp.k_max && cgp.wait_max != policy::CgpOptions::kForever)
    sync.complain("k_min", "write a number that is not above k_max");
}

bool take_out_what_keys_say(toml::table& job) {
  toml::table* const sync = job["sync"].as_table();
  if (sync == nullptr) return false;
  const policy::PolicyText words((*sync)["policy"].value_or(std::string()));
  if (words.parts[0] != policy::CgpSpec::kName) return false;
  std::vector<std::string> left = words.parts;
  for (const auto& [option, key] : kCgpKeys) {
    if (sync->contains(key)) std::erase_if(left, is_option(option));
  }
  if (left.size() == words.parts.size()) return false;
  sync->insert_or_assign("policy", absl::StrJoin(left, ":"));
  return true;
}

}  // namespace paceline::config
