// Which stages of a replica talk over links, because they are on different hosts: each with the one before
// it, and with the first one, which takes its part of the gradient in.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

// What links between stages carry.
inline constexpr char kActivations[] = "activations";  // and their gradients back
inline constexpr char kGradients[] = "gradients";      // of weights

// By stage, as the stage that connects is told, but for where. Nothing: through memory, or there is no such
// stage.
struct StageLinks {
  std::vector<std::optional<wire::StageLink>> previous;
  std::vector<std::optional<wire::StageLink>> home;
};

// Of stages on these hosts. Every link has keys of its own. `new_key`: of one direction.
StageLinks stage_links(ReplicaId replica, std::span<const HostPlace> hosts,
                       const std::function<std::string()>& new_key);

// The same link as the stage that listens is told; `connecting`: the worker that connects.
wire::StageLink other_end(const wire::StageLink& link, const std::string& connecting);

}  // namespace paceline::coordinator
