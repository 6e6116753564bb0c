#include "paceline/formats/config/lowered_memory.h"

#include <algorithm>
#include <cstddef>

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/formats/config/card_memory.h"

namespace paceline::config {

namespace {
constexpr char kLoweredMemory[] = "lowered_memory_mb";
}  // namespace

std::string lowered_memory_setting(const std::vector<double>& each) {
  return fmt::format("{}=[{}]", kLoweredMemory, fmt::join(each, ","));
}

void lower_memory(std::vector<DeviceConfig>& devices, const std::vector<double>& each) {
  PACELINE_CHECK(each.size() == devices.size(), "{} numbers for {} devices", each.size(), devices.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    DeviceConfig& device = devices[i];
    if (each[i] == 0 || (device.memory_mb && *device.memory_mb <= each[i])) continue;
    device.memory_mb = each[i];
    device.memory_of_card = false;
    device.memory_lowered = true;
  }
}

void read_lowered_memory(Section& top, std::vector<DeviceConfig>& devices) {
  const std::vector<double> each = top.numbers(kLoweredMemory, 0, 1e9);
  // A run that goes on with other devices has the numbers of its own.
  if (each.size() == devices.size()) lower_memory(devices, each);
}

std::string memory_words(const JobConfig& job) {
  const std::string cards = card_memory_words(job);
  std::vector<std::string> named;
  for (const DeviceConfig& device : job.devices) {
    if (device.memory_lowered) named.push_back(fmt::format("{} {:.4g} MB", device.name, *device.memory_mb));
  }
  if (named.empty()) return cards;
  return fmt::format("{}{}{}: a little less than what had no room there earlier in this run", cards,
                     cards.empty() ? "" : "; ", absl::StrJoin(named, ", "));
}

}  // namespace paceline::config
