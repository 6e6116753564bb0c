#include "paceline/formats/config/optimizer_settings.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

namespace paceline::config {

namespace {

using ps::OptimizerKind;

constexpr std::array kKeys{"momentum", "beta1", "beta2", "epsilon"};
constexpr std::array kWithoutEpsilon{OptimizerKind::kSgd, OptimizerKind::kNesterov, OptimizerKind::kLion,
                                     OptimizerKind::kLars};

bool has_setting(OptimizerKind kind, const std::string& key) {
  if (key == "epsilon")
    return std::find(kWithoutEpsilon.begin(), kWithoutEpsilon.end(), kind) == kWithoutEpsilon.end();
  // read_beta2() says the name that it has there.
  if (key == "beta2" && key != ps::traits_of(kind).beta2) return true;
  const auto shown = ps::traits_of(kind).shown;
  return std::any_of(shown.begin(), shown.end(),
                     [&](const ps::ShownSetting& one) { return key == one.label; });
}

// The kind that a job names; SGD if it names none that there is.
OptimizerKind kind_in(const toml::table& optimizer) {
  const std::string name = optimizer["name"].value_or(std::string());
  const auto named = [&](OptimizerKind kind) { return name == ps::traits_of(kind).name; };
  const auto found = std::find_if(std::begin(ps::kEveryOptimizer), std::end(ps::kEveryOptimizer), named);
  return found == std::end(ps::kEveryOptimizer) ? OptimizerKind::kSgd : *found;
}

bool take_out(toml::table& table, OptimizerKind kind) {
  bool any = false;
  for (const char* key : kKeys) {
    if (!has_setting(kind, key)) any |= table.erase(key) > 0;
  }
  return any;
}

}  // namespace

void refuse_settings_of_others(Section& section, OptimizerKind kind) {
  for (const char* key : kKeys) {
    if (section.has(key) && !has_setting(kind, key))
      section.complain(key, fmt::format("{} does not have it; leave it out", ps::traits_of(kind).name));
  }
}

bool take_out_settings_of_others(toml::table& job) {
  toml::table* const optimizer = job["optimizer"].as_table();
  if (optimizer == nullptr) return false;
  const OptimizerKind kind = kind_in(*optimizer);
  bool any = take_out(*optimizer, kind);
  toml::array* const groups = (*optimizer)["group"].as_array();
  for (std::size_t i = 0; groups != nullptr && i < groups->size(); ++i) {
    if (toml::table* const group = groups->get(i)->as_table()) any |= take_out(*group, kind);
  }
  return any;
}

}  // namespace paceline::config
