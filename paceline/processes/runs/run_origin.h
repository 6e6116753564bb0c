// The origin of a run: the command that began it, when, on which host and with which version. A file of the
// run's folder, which the process that begins the run writes once; older runs have none.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

struct RunOrigin {
  std::string command, date, host, processor, version;
  std::string data_note{};  // one line that people should know of the data; empty: nothing
};

std::filesystem::path origin_file(const store::RunPaths& run);

// The origin of a run that this process begins now. The date is in UTC.
RunOrigin this_origin(const std::string& version);

absl::Status write_origin(const store::RunPaths& run, const RunOrigin& origin);
// Nothing if there is no such file, or if it makes no sense.
std::optional<RunOrigin> read_origin(const store::RunPaths& run);

}  // namespace paceline::runs
