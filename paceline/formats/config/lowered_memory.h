// The memory of devices that ran out of memory in an earlier attempt of the run: less than the job says, or than their
// cards have free. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// The setting for it: 10⁶ bytes for each device that the job has without the hosts that are given up, 0 for one that never
// ran out of memory.
std::string lowered_memory_setting(const std::vector<double>& each);

// No device has more memory from now on. Requires: one number for each device.
void lower_memory(std::vector<DeviceConfig>& devices, const std::vector<double>& each);

// Reads the setting. It counts more than a device's own memory_mb if it is less.
void read_lowered_memory(Section& top, std::vector<DeviceConfig>& devices);

// The devices whose memory is that of their cards, and those that it lowers, in one line for people; empty if there are
// none.
std::string memory_words(const JobConfig& job);

}  // namespace paceline::config
