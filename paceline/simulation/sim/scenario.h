// A scenario file: a cluster to simulate and how long. docs/scenario.md lists the keys. Every key has a
// default; whatever is wrong is an InvalidArgument of one line.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/simulation/sim/cluster_model.h"

namespace paceline::sim {

struct Scenario {
  ClusterModel cluster;
  // The run ends after this many finished iterations of all replicas together, or when this many samples are
  // committed, each once. Exactly one of the two is not 0.
  std::int64_t iterations = 0;
  std::int64_t samples = 0;
  std::int64_t ahead = 0;  // iterations whose samples are reserved for each replica
};

// `file` is the name errors give. The text is not trusted.
absl::StatusOr<Scenario> parse_scenario(const std::string& text, const std::string& file);

}  // namespace paceline::sim
