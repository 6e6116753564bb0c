// The evaluator process: measures versions on the test set, beside training and at the lowest priority.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/processes/peer/peer.h"

namespace paceline::compute {

// Evaluates for the job of that coordinator, until the job is over.
// `job_file`: of this host, which says what may be started and read here; empty: there is none.
absl::Status run_evaluator(const peer::PeerOptions& options, const std::string& job_file);

}  // namespace paceline::compute
