// The differences between two job files. Pure.
#pragma once

#include <string>
#include <vector>

namespace paceline::config {

// The differences key by key, "batch = 16, and there 8"; "(not said)" if one of the jobs does not have a key.
// Keys with paths on a host are left out: runs_dir, data.source, network.certs, network.token_file. `theirs`
// may be any text: if it is not a job, it differs as a whole.
std::vector<std::string> job_differences(const std::string& ours, const std::string& theirs);

}  // namespace paceline::config
