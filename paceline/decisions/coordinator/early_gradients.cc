#include "paceline/decisions/coordinator/early_gradients.h"

#include <algorithm>
#include <utility>

namespace paceline::coordinator {

namespace {

// The host on which the replica leaves its gradient.
HostPlace gradient_host(const LiveReplica& replica) { return replica.workers.front()->host; }

}  // namespace

EarlyNumber EarlyGradients::committed(ReplicaId replica, Clock clock) {
  const Gradient gradient{replica, clock};
  if (ready_ == gradient) ready_.reset();
  for (auto& [host, announced] : announced_) {
    if (announced.gradient != gradient) continue;
    announced.gradient.reset();
    return announced.number;
  }
  return EarlyNumber(0);
}

void EarlyGradients::discarded(ReplicaId replica, Clock clock) {
  if (ready_ == Gradient{replica, clock}) ready_.reset();
}

std::optional<SendEarly> EarlyGradients::announce(ReplicaTable& replicas) {
  const auto ready = std::exchange(ready_, std::nullopt);
  const LiveReplica* replica = ready ? replicas.find(ready->replica) : nullptr;
  if (replica == nullptr) return std::nullopt;
  const HostPlace host = gradient_host(*replica);
  const auto& all = replicas.all();
  const auto here = std::count_if(all.begin(), all.end(),
                                  [&](const auto& one) { return gradient_host(one.second) == host; });
  if (here > 1) return std::nullopt;
  Announced& announced = announced_[host];
  announced = {announced.number.next(), ready};
  return SendEarly{ready->replica, ready->clock, announced.number};
}

}  // namespace paceline::coordinator
