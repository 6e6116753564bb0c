#include "paceline/coordinator/stage_links.h"

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

StageLinks stage_links(ReplicaId replica, std::span<const HostPlace> hosts,
                       const std::function<std::string()>& new_key) {
  StageLinks links;
  links.previous.resize(hosts.size());
  links.home.resize(hosts.size());
  for (std::size_t stage = 1; stage < hosts.size(); ++stage) {
    if (hosts[stage] != hosts[stage - 1])
      links.previous[stage] =
          new_link(fmt::format("replica {}, stage {}", replica, stage), kActivations, new_key);
    if (hosts[stage] != hosts.front())
      links.home[stage] =
          new_link(fmt::format("replica {}, gradient of stage {}", replica, stage), kGradients, new_key);
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
