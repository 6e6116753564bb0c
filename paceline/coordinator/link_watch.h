// What heartbeats say of how fast payloads came from other hosts, made into what a planner can use. Pure.
//
// What one stage gets from another shows a link as the planner means it. What servers get from each other
// shows less of it, as several of them send at a time. But it shows also what becomes of links that no stages
// use. There are many such pairs, so each is told less often where there are more hosts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/places.h"
#include "paceline/control/facts.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class LinkWatch {
 public:
  // Where what `received` tells of came from; nothing where there is no such process.
  using HostOf = std::function<std::optional<HostPlace>(const wire::Received& received)>;

  explicit LinkWatch(std::int64_t hosts) : hosts_(hosts) {}

  // Of a process on that host.
  std::vector<control::LinkMeasured> heard(const std::string& process, HostPlace host,
                                           const wire::Heartbeat& beat, const HostOf& host_of);

 private:
  struct Known {
    wire::Received said;     // when it was last told of
    std::int64_t heard = 0;  // times since then
  };
  static std::optional<control::LinkMeasured> news(Known& known, const wire::Received& received);

  const std::int64_t hosts_;
  std::map<std::pair<std::string, std::string>, Known> known_;  // by process, and by who sent
};

}  // namespace paceline::coordinator
