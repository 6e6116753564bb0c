#include "paceline/decisions/coordinator/stage_links.h"

#include <string>
#include <utility>

#include <fmt/format.h>

namespace paceline::coordinator {

namespace {

StageLink new_link(const std::string& name, const char* carries,
                   const std::function<std::string()>& new_key) {
  StageLink link{.name = name, .carries = carries};
  link.send_key = new_key();
  link.receive_key = new_key();
  return link;
}

}  // namespace

StageLinks stage_links(ReplicaId replica, std::span<const planner::PlannedStage> stages,
                       std::span<const HostPlace> hosts, const std::function<std::string()>& new_key) {
  StageLinks links;
  links.previous.resize(hosts.size());
  links.home.resize(hosts.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t turn = 0; turn < stages[s].width; ++turn) {
      const std::size_t device = stages[s].first + turn;
      if (hosts[device] != hosts.front()) {
        links.home[device] =
            new_link(fmt::format("replica {}, gradient of device {}", replica, device), kGradients, new_key);
      }
      if (s == 0) continue;
      auto& previous = links.previous[device];
      previous.resize(stages[s - 1].width);
      for (std::size_t other = 0; other < previous.size(); ++other) {
        const std::size_t from = stages[s - 1].first + other;
        if (!meet(turn, stages[s].width, other, previous.size()) || hosts[from] == hosts[device]) continue;
        previous[other] = new_link(fmt::format("replica {}, device {} to {}", replica, from, device),
                                   kActivations, new_key);
      }
    }
  }
  return links;
}

StageLink other_end(const StageLink& link, const std::string& connecting) {
  StageLink other = link;
  other.to = connecting;
  other.address.clear();
  std::swap(other.send_key, other.receive_key);
  return other;
}

}  // namespace paceline::coordinator
