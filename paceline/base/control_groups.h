// The limits by control groups of this process: those of a container, of a systemd unit, of a batch system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

// The folders with the limits of a controller ("memory", "cpu"): of this process's group, of those above it,
// and of the root. Files of both versions of control groups may be in them.
std::vector<std::filesystem::path> control_groups(const std::string& controller);

// How many processors' time a group may have, given its folder; nothing if it has no limit.
std::optional<double> processors_of_group(const std::filesystem::path& group);

// How many processors this process can keep busy, at least 1: those that it may run on, or as much time as
// its control groups give it, rounded up.
int usable_processors();

}  // namespace paceline
