// Which of a job's devices are on which host. The processes of a host share memory; each host has one server,
// beside its workers.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/formats/config/section.h"

namespace paceline::config {

struct JobConfig;

inline constexpr std::int64_t kMostHosts = 64;  // the most hosts of a job

// The keys `hosts`, `copies`, `without`, `host_patience_s`, `shared_folder` and `seal` of [cluster], and the
// hosts of devices that do not name one: equally many on each, in their order. Then it removes the hosts that
// the job goes on without. Complains about hosts without a device, and about keys that only work on one host.
void read_hosts(Section& cluster, JobConfig& job);

}  // namespace paceline::config
