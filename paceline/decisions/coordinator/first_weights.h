// Tells servers where to find the weights that a run begins with: in the memory of a worker on the server's
// own host. If the worker dies or is wrong before they are read, the weights of another worker serve as well.
// If the first host has no worker, its server gets them from the second host's server. Pure.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/server_fleet.h"
#include "paceline/decisions/coordinator/worker_table.h"

namespace paceline::coordinator {

class FirstWeights {
 public:
  // The tables outlive this.
  FirstWeights(const WorkerTable& workers, ServerFleet& servers, const JobSettings& job)
      : workers_(workers),
        servers_(servers),
        one_a_host_(job.hosts > 1),
        passed_on_(one_a_host_ &&
                   std::none_of(job.devices.begin(), job.devices.end(),
                                [](const auto& device) { return device.host == HostPlace(0); })) {}

  // Whether the second server sends the first one its weights.
  bool passed_on() const { return passed_on_; }

  // The paths of the weights for each server, as far as they are known; complete if there are as many as
  // servers. An empty path: the weights are passed on.
  std::vector<std::string> known() const {
    std::vector<std::string> paths;
    for (const ServerId server : servers_.ids()) {
      if (passed_on_ && server.value() == 0) {
        paths.emplace_back();
      } else if (const Worker* worker = workers_.first_attached(host_of(server)))
        paths.push_back(worker->attached->gradient_path);
    }
    return paths;
  }

  // The server cannot read the weights that it was told to start with. False if it said so before.
  bool refused(ServerId server) { return without_.insert(server).second; }
  // The worker whose weights the server was told to start with; null when it is gone.
  const Worker* owner(ServerId server) const {
    return workers_.with_memory(host_of(server), servers_.first_weights(server));
  }
  // Tells the servers without weights to start with another worker's, if there is one.
  void give() {
    for (const ServerId server : std::set<ServerId>(without_)) {
      const Worker* worker = workers_.first_attached(host_of(server));
      if (worker == nullptr) continue;
      without_.erase(server);
      servers_.start_with(server, worker->attached->gradient_path);
    }
  }

 private:
  HostPlace host_of(ServerId server) const { return HostPlace(one_a_host_ ? server.value() : 0); }

  const WorkerTable& workers_;
  ServerFleet& servers_;
  const bool one_a_host_;
  const bool passed_on_;
  std::set<ServerId> without_;  // servers that could not read their weights
};

}  // namespace paceline::coordinator
