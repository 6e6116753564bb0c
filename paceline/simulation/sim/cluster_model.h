// A cluster as a model: how long iterations take, what the network carries, which places come, leave and
// crash when. It is made of a scenario file or of a job, and the VirtualCluster reads it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/formats/config/network.h"
#include "paceline/formats/config/pace.h"

namespace paceline::sim {

// One device of a replica that is a pipeline. Handing data to its neighbours takes no time.
struct StageModel {
  double sample_ms = 0;  // mean of a sample's two passes through its units
  std::int64_t device = 0;
  std::int64_t begin = 0, end = 0;  // its units
  bool shares = false;              // the device shares the stage of the device before it
  config::Unevenness unevenness;
  std::vector<config::Slowdown> slowdowns;  // `device` is the device
};

// One place in the cluster, which a replica holds, leaves and takes again.
struct PlaceModel {
  std::string name;                // "w0", "w1", …
  double compute_ms = 1000;        // mean of an iteration, without pushing and pulling
  std::vector<StageModel> stages;  // if there are any, they determine how long an iteration takes
  std::int64_t micro_batch = 1;    // samples, for the stages
  config::Unevenness unevenness;
  std::int64_t batch = 128;  // samples an iteration
  config::Link link;
  double mtbf_s = 0;   // mean time between failures, exponential; 0: never
  double mttr_s = 60;  // mean time to repair, exponential
};

// Something that happens to a place at a fixed time.
enum class Happening { kJoin, kLeave, kCrash };
struct Change {
  Time at;
  std::int64_t place = 0;
  Happening what = Happening::kJoin;
};

struct ClusterModel {
  std::uint64_t seed = 1;
  std::int64_t bytes = 0;  // bytes of one push or one pull; 0: communication is free and takes no time
  config::ServerLinks servers;
  // Whether the members of a commit sum among themselves (network.h); if empty, the policy decides.
  std::optional<bool> in_groups;
  std::vector<PlaceModel> places;
  double load_ms = 0;        // loading a full batch, besides computing it
  bool uneven_data = false;  // leases by speed; an iteration takes compute_ms a batch of the samples in it
  std::vector<config::Slowdown> slowdowns;  // `device` is a place
  std::vector<Change> changes;              // ascending; a place whose first change is a join starts empty
  Duration detection{from_seconds(0.01)};   // time from a crash until the Controller hears of it
  Time faults_end{Time::max()};             // no failure by mtbf_s after this
};

}  // namespace paceline::sim
