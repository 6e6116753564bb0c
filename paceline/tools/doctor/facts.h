// Facts about all hosts of a job that were examined together. Plain data, for examination.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/tools/doctor/finding.h"

namespace paceline::doctor {

// A host's clock against the first host's. The truth is no further off than `uncertainty_s`.
struct ClockFacts {
  double ahead_s = 0;  // negative: it is behind
  double uncertainty_s = 0;
};

struct HostFacts {
  bool came = false;
  std::string left{};     // why it left before the end; empty: it stayed
  std::string address{};  // its address for the other hosts
  std::string version{};  // the program's
  std::string fabric{};   // the fabric of its links: "sealed", "tcp", "ucx"
  std::string build{};    // a short hash of the program's bytes
  std::vector<Finding> own{};
  std::vector<std::string> other_keys{};  // keys in which its job differs from the first host's
  std::string data{};                     // its data set; empty: none, and a finding of its own says why
  std::optional<ClockFacts> clock{};
  // The reason why its run folder is not shared with the first host's; empty: it is shared. Nothing: not
  // examined.
  std::optional<std::string> folder{};
};

// A link between two hosts, made the way a run makes it. `b` connects to `a`.
struct LinkFacts {
  int a = 0;
  int b = 0;
  std::string error{};  // why there is no link; then the figures mean nothing
  double round_trip_us = 0;
  double to_a_mb_s = 0;
  double to_b_mb_s = 0;
};

struct ClusterFacts {
  std::vector<HostFacts> hosts;  // indexed by rank
  std::vector<LinkFacts> links;
  std::string runs_dir;        // the first host's
  bool shared_folder = true;   // whether all hosts should see it
  std::int64_t waited_s = 60;  // how long the hosts were waited for
};

}  // namespace paceline::doctor
