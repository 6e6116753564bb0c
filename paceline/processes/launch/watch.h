// Watches a cluster until its end, shows its progress, and passes Ctrl-C and SIGTERM on.
#pragma once

#include <functional>
#include <string>

#include <absl/status/status.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/display.h"
#include "paceline/processes/launch/local_cluster.h"

namespace paceline::launch {

// Watches until the end. `why`: the reason that other hosts get when this host is stopped. `on_signal`: the
// meaning of a cluster's warning. `look`: called a few times a second; an error of it ends the watch. Errors: Cancelled if
// a second signal ended everything at once; those of `look`.
absl::Status watch(
    LocalCluster& cluster, Display& display, const std::string& why, config::OnSignal on_signal,
    const std::function<absl::Status()>& look = [] { return absl::OkStatus(); });

}  // namespace paceline::launch
