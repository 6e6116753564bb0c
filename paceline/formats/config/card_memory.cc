#include "paceline/formats/config/card_memory.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::config {

namespace {

constexpr char kCardMemory[] = "card_memory_mb";
constexpr double kLeastMb = 1;         // a card that is full has no room for any layer
constexpr std::size_t kMostNamed = 8;  // the most devices that a line names

}  // namespace

std::optional<std::string> card_memory_setting(const JobConfig& job, const std::vector<std::int64_t>& free) {
  if (free.empty() || job.hosts > 1) return std::nullopt;
  const std::size_t cards = free.size();
  std::vector<double> each;
  std::size_t number = 0;
  bool wanted = false;
  for (const DeviceConfig& device : job.devices) {
    const std::size_t card = number++ % cards;
    const std::size_t sharing = (job.devices.size() - card + cards - 1) / cards;
    const double mb = static_cast<double>(free[card]) / 1e6 / static_cast<double>(sharing) - kCardReserveMb;
    each.push_back(std::max(kLeastMb, std::floor(mb)));
    wanted |= !device.memory_mb || device.memory_of_card;
  }
  if (!wanted) return std::nullopt;
  return fmt::format("{}=[{}]", kCardMemory, fmt::join(each, ","));
}

void read_card_memory(Section& top, std::vector<DeviceConfig>& devices) {
  const std::vector<double> each = top.numbers(kCardMemory, 0, 1e9);
  if (each.size() != devices.size()) return;  // a run that goes on with other devices
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (devices[i].memory_mb || each[i] == 0) continue;
    devices[i].memory_mb = each[i];
    devices[i].memory_of_card = true;
  }
}

std::string card_memory_words(const JobConfig& job) {
  std::vector<std::string> named;
  for (const DeviceConfig& device : job.devices) {
    if (device.memory_of_card) named.push_back(fmt::format("{} {:.0f} MB", device.name, *device.memory_mb));
  }
  if (named.empty()) return "";
  const std::size_t more = named.size() - std::min(named.size(), kMostNamed);
  named.resize(named.size() - more);
  return fmt::format("{}{}: their cards' free memory when the run began, less {:.0f} MB for each",
                     absl::StrJoin(named, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                     kCardReserveMb);
}

}  // namespace paceline::config
