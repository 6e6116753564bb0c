// Hosts without any problem, for tests.
#pragma once

#include "paceline/tools/doctor/facts.h"

namespace paceline::doctor {

inline HostFacts well_host(int rank) {
  HostFacts host;
  host.came = true;
  host.address = "10.0.0." + std::to_string(rank + 1);
  host.version = "0.1.0";
  host.fabric = "sealed";
  host.build = "1234";
  host.own = {{"processors", Health::kOk, std::to_string(2 + rank)}, {"libraries", Health::kOk, "gRPC 1.51"}};
  host.data = "1200 samples";
  host.folder = "";
  if (rank > 0) host.clock = ClockFacts{0.0002, 0.0001};
  return host;
}

// Every link carries 1000 MB/s.
inline ClusterFacts well_cluster(int hosts) {
  ClusterFacts facts;
  facts.runs_dir = "/shared/runs";
  for (int rank = 0; rank < hosts; ++rank) facts.hosts.push_back(well_host(rank));
  for (int a = 0; a < hosts; ++a) {
    for (int b = a + 1; b < hosts; ++b) facts.links.push_back({a, b, "", 80, 1000, 1000});
  }
  return facts;
}

}  // namespace paceline::doctor
