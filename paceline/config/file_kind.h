// The kinds of files that commands take. All are TOML, and easily taken for each other. Pure.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <toml++/toml.h>

namespace paceline::config {

enum class FileKind { kJob, kScenario, kCluster, kSweep };

// What is wrong with a file that was read as `taken_for`: `status`, or that it is of another kind, where that
// is certain. An OK status stays so.
absl::Status unless_other_kind(const toml::table& root, FileKind taken_for, const std::string& file,
                               const absl::Status& status);

}  // namespace paceline::config
