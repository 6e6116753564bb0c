// The memory that the processes of a job may use on this host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace paceline::launch {

struct HostMemory {
  std::int64_t bytes = 0;  // 0: unknown
  std::string of;          // the owner of the limit: "this host", "its control group"
};

// The least of the host's memory and the limits of this process's control group and the groups above it.
HostMemory host_memory();

// The bytes that a control group may still take, given its folder: files that the kernel keeps in memory make room. Nothing
// if it has no limit, or does not say what it has taken.
std::optional<std::int64_t> memory_left_in(const std::filesystem::path& group);
// The least of them, over this process's group and those above it.
std::optional<std::int64_t> memory_left();

}  // namespace paceline::launch
