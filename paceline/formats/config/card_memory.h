// The memory of planned devices if the job does not say it: what their cards have free when the run begins. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// The part of a card's free memory that a plan leaves to each device, because it does not count it: PyTorch's kernels
// and work spaces, and memory between its allocations. 10⁶ bytes.
inline constexpr double kCardReserveMb = 1000;

// The setting with which the devices of one host have what their cards have. `free`: the bytes of each card. Devices
// take the cards in turn, by their numbers, and those of one card share what it has. nullopt if the
// job says the memory of each device, or has several hosts.
std::optional<std::string> card_memory_setting(const JobConfig& job, const std::vector<std::int64_t>& free);

// The devices of a host and the memory that a plan may fill on each, in one line for people; empty if no card was asked.
// `free`: as above, of that host.
std::string free_memory_words(const JobConfig& job, std::int64_t host, const std::vector<std::int64_t>& free);

// Reads that setting. A device's own memory_mb counts more.
void read_card_memory(Section& top, std::vector<DeviceConfig>& devices);

// The devices whose memory is that of their cards, in one line for people; empty if there is none.
std::string card_memory_words(const JobConfig& job);

}  // namespace paceline::config
