// Where a job's values came from, for what is found wrong with them after the job was read.
#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

namespace paceline::config {

// An error that begins with a key of the job, "data.source: …" or "model.heads = 3 …", then begins as those
// of parse_job() do: with the file and its line, or with --set. A key may have a number: "pipeline[1].cuts"
// is of the second [[pipeline]], and "device[1].batch" of the device w1. Any other error stays as it is. The
// job: as for parse_job().
absl::Status with_origin(const absl::Status& error, const std::string& text, const std::string& file,
                         const std::vector<std::string>& sets);

}  // namespace paceline::config
