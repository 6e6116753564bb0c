// The worker process: one replica on one device. Stateless: it pulls weights, computes a gradient, and says
// so.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/cli/peer.h"

namespace paceline::cli {

// Works as `name` ("w2") for the job of that coordinator, until the job is over.
absl::Status run_worker(const PeerOptions& options, const std::string& name);

}  // namespace paceline::cli
