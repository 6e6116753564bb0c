// Any bytes as a cluster file: one line that says what is wrong, or a problem that can be planned, or of
// which the planner says why not.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/formats/config/cluster_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline;
  constexpr std::size_t kMostDevices = 6, kMostLayers = 30;
  constexpr std::int64_t kMostBatch = 4096;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto file = config::parse_cluster(text, "FILE");
  if (!file.ok()) {
    testing::check_one_line(file.status(), "FILE");
    return 0;
  }
  const planner::Problem& problem = file->problem;
  if (problem.model.layers.empty() || problem.model.layers.size() > kMostLayers ||
      problem.cluster.devices.size() > kMostDevices || problem.batch > kMostBatch)
    return 0;
  planner::SearchOptions options;
  options.moves = 40;
  const auto planned = planner::make_plan(problem, options);
  if (!planned.ok()) return 0;
  const absl::Status checked = planner::CostModel(problem).check(planned->found.plan);
  PACELINE_CHECK(checked.ok(), "{}", std::string(checked.message()));
  return 0;
}
