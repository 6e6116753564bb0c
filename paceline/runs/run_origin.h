// Where a run comes from: the command that began it, when, on which host and with which version. A file of
// the run's folder, which the process that begins the run writes once; runs from before it had one have none.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/store/run_folder.h"

namespace paceline::runs {

struct RunOrigin {
  std::string command, date, host, processor, version;
  std::string data_note{};  // one line that people should know of the data; empty: nothing
};

std::filesystem::path origin_file(const store::RunPaths& run);

// Of this process, begun now. The date is that of UTC.
RunOrigin this_origin(const std::string& version);

absl::Status write_origin(const store::RunPaths& run, const RunOrigin& origin);
// Nothing where there is none, or none that makes sense.
std::optional<RunOrigin> read_origin(const store::RunPaths& run);

}  // namespace paceline::runs
