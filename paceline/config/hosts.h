// Which of a job's devices are on which host. A host is a place where processes share memory; each has one
// server, beside its workers.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/config/section.h"

namespace paceline::config {

struct JobConfig;

inline constexpr std::int64_t kMostHosts = 64;  // of a job

// The keys `hosts`, `copies`, `without`, `host_patience_s`, `shared_folder` and `seal` of [cluster], and on
// which hosts the devices are that do not say so themselves: as many on each, in their order. Then the job is
// what is left without the hosts that it is to be without. Complains about hosts without a device, and about
// what only works on one host.
void read_hosts(Section& cluster, JobConfig& job);

}  // namespace paceline::config
