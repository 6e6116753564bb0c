// `paceline simulate` of a cluster file with a section [planner]: planned batch by batch, beside the
// baselines.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

// Whether the file is one of those.
absl::StatusOr<bool> has_planner(const std::string& file);

// Shows a table; of several files one for a Markdown file: the mean milliseconds of a batch, a column for
// each file, and how far ours is below each other. With `json_file` writes an object for each training ("-":
// to standard output, and no table); keys as docs/plan.md lists. The exit status.
absl::StatusOr<int> simulate_planned(const std::vector<std::string>& files, const std::string& json_file);

}  // namespace paceline::cli
