// Tells servers where to find the weights that a run begins with: in the memory of a worker on the server's
// own host. If the worker dies or is wrong before they are read, the weights of another worker serve as well.
// If the first host has no worker, its server gets them from the second host's server. Pure.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "paceline/coordinator/server_fleet.h"
#include "paceline/coordinator/worker_table.h"

namespace paceline::coordinator {

class FirstWeights {
 public:
  // `one_a_host`: servers are. The tables outlive this.
  FirstWeights(const WorkerTable& workers, ServerFleet& servers, const config::JobConfig& job)
      : workers_(workers),
        servers_(servers),
        one_a_host_(job.hosts > 1),
        passed_on_(one_a_host_ && std::none_of(job.devices.begin(), job.devices.end(),
                                               [](const auto& device) { return device.host == 0; })) {}

  // Whether the second server sends the first one what it has none of.
  bool passed_on() const { return passed_on_; }

  // Of each server, where that is known: as many as there are. Empty where they are passed on.
  std::vector<std::string> known() const {
    std::vector<std::string> paths;
    for (const ServerId server : servers_.ids()) {
      if (passed_on_ && server.value() == 0) {
        paths.emplace_back();
      } else if (const Worker* worker = workers_.first_attached(host_of(server)))
        paths.push_back(worker->attached->gradient_path());
    }
    return paths;
  }

  // That server, which was told to start with some, cannot read them. False when it said so before.
  bool refused(ServerId server) { return without_.insert(server).second; }
  // The worker whose those are; null when it is gone.
  const Worker* owner(ServerId server) const {
    return workers_.with_memory(host_of(server), servers_.first_weights(server));
  }
  // Tells those that have none to start with another worker's, where there is one.
  void give() {
    for (const ServerId server : std::set<ServerId>(without_)) {
      const Worker* worker = workers_.first_attached(host_of(server));
      if (worker == nullptr) continue;
      without_.erase(server);
      servers_.start_with(server, worker->attached->gradient_path());
    }
  }

 private:
  HostPlace host_of(ServerId server) const { return HostPlace(one_a_host_ ? server.value() : 0); }

  const WorkerTable& workers_;
  ServerFleet& servers_;
  const bool one_a_host_;
  const bool passed_on_;
  std::set<ServerId> without_;  // servers that could not read theirs
};

}  // namespace paceline::coordinator
