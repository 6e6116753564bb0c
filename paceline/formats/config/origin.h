// The origin of a job's values, for errors that are found after the job was read.
#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

namespace paceline::config {

// The name, in place of a file's, of a job that the words of a command make. Its text is nobody's file, so errors name
// no line of it.
inline constexpr char kCommandLine[] = "the command line";

// Makes an error that begins with a key of the job, "data.source: …" or "model.heads = 3 …", begin like those
// of parse_job(): with the file and its line, or with --set. A key may have a number: "pipeline[1].cuts" is a
// key of the second [[pipeline]], and "device[1].batch" one of the device w1. Any other error stays the same.
// The job is given as to parse_job().
absl::Status with_origin(const absl::Status& error, const std::string& text, const std::string& file,
                         const std::vector<std::string>& sets);

}  // namespace paceline::config
