// A check that another host sees the same folder as this one: one leaves a mark in it, and the other looks
// for the mark and tries to write there as well. For run folders, which have to be on a disk that all hosts
// share.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include <absl/status/status.h>

namespace paceline::store {

// Network file systems may take this long to show another host's file.
inline constexpr std::chrono::seconds kMarkPatience{5};

// Looks for a mark with this text, again and again until `patience` is over. Errors: FailedPrecondition: the
// hosts do not share the folder.
absl::Status find_mark(const std::filesystem::path& file, const std::string& text,
                       std::chrono::milliseconds patience);

// Checks a host's access to a run folder: it has to find the mark of the host that made the folder, and to be
// able to write beside it. `own`: a name that tells hosts apart. Errors: FailedPrecondition.
absl::Status check_shared(const std::filesystem::path& file, const std::string& text, const std::string& own,
                          std::chrono::milliseconds patience = kMarkPatience);

}  // namespace paceline::store
