// Which devices of a replica use links, because they are on different hosts. Each has a link to those devices
// of the previous stage with which it has micro-batches in common, and to the first device, which receives
// its part of the gradient.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/planner/plan.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

// What links between stages carry.
inline constexpr char kActivations[] = "activations";  // and their gradients back
inline constexpr char kGradients[] = "gradients";      // of weights

// By device, as the one that connects is told, but for where. Nothing: through memory, or they do not talk.
struct StageLinks {
  std::vector<std::vector<std::optional<wire::StageLink>>> previous;  // by turn in the stage before, too
  std::vector<std::optional<wire::StageLink>> home;
};

// Of devices on these hosts, in these stages. Every link has keys of its own. `new_key`: of one direction.
StageLinks stage_links(ReplicaId replica, std::span<const planner::PlannedStage> stages,
                       std::span<const HostPlace> hosts, const std::function<std::string()>& new_key);

// The same link as the device that listens is told; `connecting`: the worker that connects.
wire::StageLink other_end(const wire::StageLink& link, const std::string& connecting);

}  // namespace paceline::coordinator
