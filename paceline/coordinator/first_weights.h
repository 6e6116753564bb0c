// Where servers find the weights that a run begins with: in memory of a worker that is here, on the server's
// own host. The worker may die or be wrong before they are read; another one's do as well. Pure.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "paceline/coordinator/server_fleet.h"
#include "paceline/coordinator/worker_table.h"

namespace paceline::coordinator {

class FirstWeights {
 public:
  // `one_a_host`: servers are. The tables outlive this.
  FirstWeights(const WorkerTable& workers, ServerFleet& servers, bool one_a_host)
      : workers_(workers), servers_(servers), one_a_host_(one_a_host) {}

  // Of each server, where that is known: as many as there are.
  std::vector<std::string> known() const {
    std::vector<std::string> paths;
    for (std::size_t shard = 0; shard < servers_.size(); ++shard) {
      if (const Worker* worker = workers_.first_attached(host_of(shard)))
        paths.push_back(worker->attached->gradient_path());
    }
    return paths;
  }

  // That server, which was told to start with some, cannot read them. False when it said so before.
  bool refused(std::size_t shard) { return without_.insert(shard).second; }
  // The worker whose those are; null when it is gone.
  const Worker* owner(std::size_t shard) const {
    return workers_.with_memory(host_of(shard), servers_.first_weights(shard));
  }
  // Tells those that have none to start with another worker's, where there is one.
  void give() {
    for (const std::size_t shard : std::set<std::size_t>(without_)) {
      const Worker* worker = workers_.first_attached(host_of(shard));
      if (worker == nullptr) continue;
      without_.erase(shard);
      servers_.start_with(shard, worker->attached->gradient_path());
    }
  }

 private:
  int host_of(std::size_t shard) const { return one_a_host_ ? static_cast<int>(shard) : 0; }

  const WorkerTable& workers_;
  ServerFleet& servers_;
  const bool one_a_host_;
  std::set<std::size_t> without_;  // servers that could not read theirs
};

}  // namespace paceline::coordinator
