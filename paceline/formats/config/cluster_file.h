// A cluster and the model to train on it, as cluster.toml describes them: the input of a plan (`paceline
// plan`), and the changes of the cluster while it trains (`paceline simulate`). docs/plan.md lists the keys.
// Plain values; every mistake is an InvalidArgument of one line.
//
// Invariant of the resulting problem: as planner/problem.h says, except for the layers if the model is given
// by name or in a file of its own: then there are none, and the caller fills them in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/problem.h"
#include "paceline/formats/config/model_config.h"

namespace paceline::config {

// A built-in model, to be measured on this machine.
struct NamedModel {
  ModelConfig model;
  // Empty and 0: as the model usually has them.
  std::vector<std::int64_t> sample_shape;
  std::int64_t classes = 0;
};

enum class ClusterEvent { kSpeed, kLink, kPrice, kJoin, kLeave };

// A change from at_s on: a device's speed or price, a link between two devices, or its presence.
struct ClusterChange {
  double at_s = 0;
  ClusterEvent what = ClusterEvent::kSpeed;
  std::int32_t device = 0;
  std::int32_t other = 0;     // kLink: the other end
  double speed = 1;           // kSpeed
  double price_per_hour = 0;  // kPrice
  planner::Link link{};       // kLink
};

// The section [planner].
struct PlannerConfig {
  double v = 20;                    // Lyapunov's V: the weight of time against budgets
  std::int64_t cuts_every = 30;     // batches between looks at the cuts
  std::int64_t groups_every = 200;  // batches between looks at the groups
  std::int64_t trial = 3;           // batches that a new plan is on trial
  double migration_ms = 500;        // cost of handing a device other layers, besides the weights it pulls
};

struct ClusterFile {
  planner::Problem problem;
  std::uint64_t seed = 1;
  std::optional<NamedModel> named;  // from [model] name
  std::string profile;              // [model] profile: a file beside this one; may be empty
  planner::LayerProfile each;       // default values for a profile's layers
  std::optional<PlannerConfig> planner;
  std::int64_t batches = 1000;  // batches to simulate
  double jitter = 0;            // spread of a device's batch times: standard deviation / mean, log-normal
  double noise = 0;             // the same for the measurements
  std::vector<ClusterChange> changes;  // in order of time
};

// The place of the model: the file, or somewhere else. Then the file may not have one, and the caller fills in the
// layers.
enum class ModelIs { kInFile, kElsewhere };

absl::StatusOr<ClusterFile> parse_cluster(const std::string& text, const std::string& file,
                                          ModelIs model = ModelIs::kInFile);

// A file with [[layer]] alone, which [model] profile names. `otherwise`: the values that a layer has by
// default.
absl::StatusOr<planner::ModelProfile> parse_profile(const std::string& text, const std::string& file,
                                                    const planner::LayerProfile& otherwise = {});
// The text that parse_profile reads.
std::string profile_text(const planner::ModelProfile& profile);

}  // namespace paceline::config
