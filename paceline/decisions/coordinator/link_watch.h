// Turns the heartbeats' reports of how fast payloads came from other hosts into measurements for the planner.
// Pure.
//
// Traffic between stages measures a link as the planner needs it. Traffic between servers measures less of
// it, because several servers send at a time. But it also shows changes of links that no stages use. There
// are many such pairs, so with more hosts each pair is reported less often.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/places.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

class LinkWatch {
 public:
  // The host from which the receipts in `received` came; nothing if there is no such process.
  using HostOf = std::function<std::optional<HostPlace>(const Received& received)>;

  explicit LinkWatch(std::int64_t hosts) : hosts_(hosts) {}

  // Takes the heartbeat of a process on that host.
  std::vector<control::LinkMeasured> heard(const std::string& process, HostPlace host, const Heartbeat& beat,
                                           const HostOf& host_of);

 private:
  struct Known {
    Received said;           // the latest report to the planner
    std::int64_t heard = 0;  // heartbeats since then
  };
  static std::optional<control::LinkMeasured> news(Known& known, const Received& received);

  const std::int64_t hosts_;
  std::map<std::pair<std::string, std::string>, Known> known_;  // indexed by process and sender
};

}  // namespace paceline::coordinator
