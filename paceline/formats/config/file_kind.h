// The kinds of files that commands take. All are TOML, and easy to confuse. Pure.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <toml++/toml.h>

namespace paceline::config {

enum class FileKind { kJob, kScenario, kCluster, kSweep };

// The error of a file that was read as `taken_for`: `status`, or that the file is certainly of another kind.
// An OK status stays OK.
absl::Status unless_other_kind(const toml::table& root, FileKind taken_for, const std::string& file,
                               const absl::Status& status);

}  // namespace paceline::config
