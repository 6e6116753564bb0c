// The differences between two job files. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::config {

// One key that two jobs say otherwise, with its values as TOML; nothing: that job does not have it.
struct JobDifference {
  std::string key;
  std::optional<std::string> ours{}, theirs{};

  std::string in_words() const;  // "batch = 16, and there 8"
  // Whether its values are paths or addresses of a host.
  bool is_of_host() const;
};

// All of them, in the order of their keys. Errors: InvalidArgument if one of the texts is no job.
absl::StatusOr<std::vector<JobDifference>> all_job_differences(const std::string& ours,
                                                               const std::string& theirs);

// If `now` is the job `before`, and only this host's Python, certificates or token have moved: the settings
// (key=value) that differ. Nothing if it is another job.
std::optional<std::vector<std::string>> moved_settings(const std::string& now, const std::string& before);

// The differences key by key, "batch = 16, and there 8"; "(not said)" if one of the jobs does not have a key.
// Keys with paths on a host are left out: runs_dir, data.source, network.certs, network.token_file. `theirs`
// may be any text: if it is not a job, it differs as a whole.
std::vector<std::string> job_differences(const std::string& ours, const std::string& theirs);

}  // namespace paceline::config
