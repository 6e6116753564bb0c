// The worker process: one replica on one device. Stateless: it pulls weights, computes a gradient, and says
// so.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// Works as `name` ("w2") for the job of the coordinator at this address, until the job is over.
absl::Status run_worker(const std::string& coordinator, const std::string& name);

}  // namespace paceline::cli
