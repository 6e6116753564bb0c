// Looks after a cluster until its end, showing how it goes, and passing Ctrl-C and SIGTERM on.
#pragma once

#include <functional>
#include <string>

#include <absl/status/status.h>

#include "paceline/launch/display.h"
#include "paceline/launch/local_cluster.h"

namespace paceline::launch {

// `why`: what to tell the others when this one is stopped.
// `look`: called a few times a second. Cancelled when a second signal ended it at once.
absl::Status watch(
    LocalCluster& cluster, Display& display, const std::string& why,
    const std::function<void()>& look = [] {});

}  // namespace paceline::launch
