// Whether another host sees the same folder as this one: one leaves a mark in it, and the other looks for
// that and tries to write there as well. For run folders, which have to be on a disk that all hosts share.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include <absl/status/status.h>

namespace paceline::store {

// Network file systems may show late what another host wrote.
inline constexpr std::chrono::seconds kMarkPatience{5};

// Looks for a mark with this text, again and again for so long. Errors: FailedPrecondition, that the folder
// is none that the hosts share.
absl::Status find_mark(const std::filesystem::path& file, const std::string& text,
                       std::chrono::milliseconds patience);

// What a host needs of a run folder: that it finds the mark of the one that made the folder, and can write
// beside it; `own` tells the names of hosts apart. Errors: FailedPrecondition.
absl::Status check_shared(const std::filesystem::path& file, const std::string& text, const std::string& own,
                          std::chrono::milliseconds patience = kMarkPatience);

}  // namespace paceline::store
