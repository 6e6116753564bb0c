#include "paceline/processes/coordinator/stage_links.h"

#include <string>

#include <fmt/format.h>

namespace paceline::coordinator {

namespace {

wire::StageLink new_link(const std::string& name, const char* carries,
                         const std::function<std::string()>& new_key) {
  wire::StageLink link;
  link.set_name(name);
  link.set_carries(carries);
  link.set_send_key(new_key());
  link.set_receive_key(new_key());
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

wire::StageLink other_end(const wire::StageLink& link, const std::string& connecting) {
  wire::StageLink other = link;
  other.set_to(connecting);
  other.clear_address();
  other.set_send_key(link.receive_key());
  other.set_receive_key(link.send_key());
  return other;
}

}  // namespace paceline::coordinator
