#include "paceline/formats/config/card_memory.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::config {

namespace {

constexpr char kCardMemory[] = "card_memory_mb";
constexpr double kLeastMb = 1;         // a card that is full has no room for any layer
constexpr std::size_t kMostNamed = 8;  // the most devices that a line names

// For each of so many devices of one host. Requires: `free` is not empty.
std::vector<double> shares_of_cards(std::size_t devices, const std::vector<std::int64_t>& free) {
  const std::size_t cards = free.size();
  std::vector<double> each;
  for (std::size_t number = 0; number < devices; ++number) {
    const std::size_t card = number % cards;
    const std::size_t sharing = (devices - card + cards - 1) / cards;
    const double mb = static_cast<double>(free[card]) / 1e6 / static_cast<double>(sharing) - kCardReserveMb;
    each.push_back(std::max(kLeastMb, std::floor(mb)));
  }
  return each;
}

// "w0 23000 MB, w1 7500 MB and 3 more".
std::string few_of(std::vector<std::string> named) {
  const std::size_t more = named.size() - std::min(named.size(), kMostNamed);
  named.resize(named.size() - more);
  return absl::StrJoin(named, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::optional<std::string> card_memory_setting(const JobConfig& job, const std::vector<std::int64_t>& free) {
  if (free.empty() || job.hosts > 1) return std::nullopt;
  const bool wanted = std::any_of(job.devices.begin(), job.devices.end(), [](const DeviceConfig& device) {
    return !device.memory_mb || device.memory_of_card;
  });
  if (!wanted) return std::nullopt;
  return fmt::format("{}=[{}]", kCardMemory, fmt::join(shares_of_cards(job.devices.size(), free), ","));
}

std::string free_memory_words(const JobConfig& job, std::int64_t host,
                              const std::vector<std::int64_t>& free) {
  std::vector<std::string> names;
  for (const DeviceConfig& device : job.devices) {
    if (device.host.value_or(0) == host) names.push_back(device.name);
  }
  if (free.empty() || names.empty()) return "";
  const std::vector<double> each = shares_of_cards(names.size(), free);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] += fmt::format(" {:.0f} MB", each[i]);
  return fmt::format("{}: their cards' free memory, less {:.0f} MB for each", few_of(std::move(names)),
                     kCardReserveMb);
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
  return fmt::format("{}: their cards' free memory when the run began, less {:.0f} MB for each",
                     few_of(std::move(named)), kCardReserveMb);
}

}  // namespace paceline::config
