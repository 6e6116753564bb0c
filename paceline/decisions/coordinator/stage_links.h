// The links between devices of a replica that are on different hosts. Each device has a link to those devices
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
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/planner/plan.h"

namespace paceline::coordinator {

// The contents of links between stages.
inline constexpr char kActivations[] = "activations";  // activations, and their gradients back
inline constexpr char kGradients[] = "gradients";      // gradients of weights

// The links of each device, in the form for the end that connects, without the address. Nothing: the two
// devices share memory, or do not talk.
struct StageLinks {
  // previous[device][turn in the stage before]
  std::vector<std::vector<std::optional<StageLink>>> previous;
  std::vector<std::optional<StageLink>> home;
};

// The links of devices on these hosts, in these stages. Every link has its own keys. `new_key`: makes a key
// for one direction.
StageLinks stage_links(ReplicaId replica, std::span<const planner::PlannedStage> stages,
                       std::span<const HostPlace> hosts, const std::function<std::string()>& new_key);

// The same link in the form for the device that listens; `connecting`: the worker that connects.
StageLink other_end(const StageLink& link, const std::string& connecting);

}  // namespace paceline::coordinator
