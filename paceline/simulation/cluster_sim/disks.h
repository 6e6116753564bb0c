// The disks of the hosts: one that all share, or one each.
#pragma once

#include <vector>

#include "paceline/simulation/cluster_sim/run_folder.h"

namespace paceline::cluster_sim {

class Disks {
 public:
  Disks(bool own, int hosts) : folders_(own ? static_cast<std::size_t>(hosts) : 1) {}

  bool own() const { return folders_.size() > 1; }
  // The run's folder, as that host sees it.
  RunFolder& of(int host) { return folders_[own() ? static_cast<std::size_t>(host) : 0]; }
  std::vector<RunFolder>& all() { return folders_; }

 private:
  std::vector<RunFolder> folders_;
};

}  // namespace paceline::cluster_sim
