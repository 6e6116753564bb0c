// `paceline simulate` of a cluster file with a section [planner]: planned batch by batch, beside the
// baselines.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

// Whether the file is one of those.
absl::StatusOr<bool> has_planner(const std::string& file);

// Shows a table, or writes one JSON object for each of them; keys as docs/plan.md lists. The exit status.
absl::StatusOr<int> simulate_planned(const std::string& file, const std::string& json_file);

// Several of them: a Markdown table of the mean milliseconds of a batch, a column for each file, and how far
// ours is below each other. The exit status.
absl::StatusOr<int> compare_planned(const std::vector<std::string>& files);

}  // namespace paceline::cli
