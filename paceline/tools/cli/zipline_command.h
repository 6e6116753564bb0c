// `paceline zipline`: when should replicas meet whose next ready times are predicted in a file? The search of
// ElasticBSP, and the searches that it is compared with, on the user's own input.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct ZiplineOptions {
  std::string file;  // in the form of config/predicted_times.h
  std::string method = "zip-line";
  std::string json;  // a file for one JSON object, or "-": standard output; empty: a table
};

absl::Status zipline_command(const ZiplineOptions& options);

}  // namespace paceline::cli
