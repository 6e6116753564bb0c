// What a report says of a run that no fact tells.
#pragma once

#include <cstdint>

#include "paceline/config/job_config.h"
#include "paceline/report/summary.h"

namespace paceline::cli {

// The journal's key for the samples of the whole job.
inline constexpr char kTotalSamplesKey[] = "total_samples";

inline report::RunInfo run_info(const config::JobConfig& job, std::int64_t total_samples) {
  return {.title = job.name,
          .policy = policy::to_string(job.policy),
          .world = report::World::kLive,
          .total_samples = total_samples,
          .target = job.target};
}

}  // namespace paceline::cli
