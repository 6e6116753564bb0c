// The server process: one shard of the weights and of the optimizer's state.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// Serves shard number `shard` (from 0) of the job of the coordinator at this address, until the job is over.
absl::Status run_server(const std::string& coordinator, int shard);

}  // namespace paceline::cli
