// `paceline zipline`: when should replicas meet, whose next ready times are predicted in a file? The search
// of ElasticBSP, and the ones it is compared with, on input of one's own.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct ZiplineOptions {
  std::string file;  // as config/predicted_times.h says
  std::string method = "zip-line";
  std::string json;  // where one JSON object goes: a file, "-": standard output; empty: a table
};

absl::Status zipline_command(const ZiplineOptions& options);

}  // namespace paceline::cli
