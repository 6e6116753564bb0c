// Any bytes as a cluster file that is simulated for some batches: no broken promise, whatever happens to it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/simulation/sim/planned_run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline;
  constexpr std::size_t kMostDevices = 4, kMostLayers = 12;
  constexpr std::int64_t kMostBatch = 64, kBatches = 20;
  auto file = config::parse_cluster(std::string(reinterpret_cast<const char*>(bytes), size), "FILE");
  if (!file.ok()) return 0;
  const planner::Problem& problem = file->problem;
  if (problem.model.layers.empty() || problem.model.layers.size() > kMostLayers ||
      problem.cluster.devices.size() > kMostDevices || problem.batch > kMostBatch)
    return 0;
  file->batches = kBatches;
  const auto runs = sim::run_planned(*file);
  if (!runs.ok()) return 0;
  for (const sim::PlannedRun& run : *runs)
    PACELINE_CHECK(run.elapsed_ms >= 0 && run.predicted_error >= 0, "{} took {} ms", run.name,
                   run.elapsed_ms);
  return 0;
}
