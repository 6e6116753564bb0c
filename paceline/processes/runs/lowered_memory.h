// The memory that a run's devices turned out to have.
#pragma once

#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/records/store/journal_reader.h"

namespace paceline::runs {

// For each device of `job`: the memory that the planner took it to have at last, in 10⁶ bytes, if it ran out of memory
// in any attempt that the journal has; else 0. Devices are the same ones by their names. Errors: those of the journal.
absl::StatusOr<std::vector<double>> lowered_memory(const config::JobConfig& job,
                                                   store::JournalReader& journal);

}  // namespace paceline::runs
