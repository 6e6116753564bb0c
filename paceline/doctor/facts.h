// What was learnt of all hosts of a job when they were examined together. Plain data, for examination.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/doctor/finding.h"

namespace paceline::doctor {

// A host's clock against the first host's. The truth is no further off than `uncertainty_s`.
struct ClockFacts {
  double ahead_s = 0;  // negative: it is behind
  double uncertainty_s = 0;
};

struct HostFacts {
  bool came = false;
  std::string left{};     // why it went before the end; empty: it stayed
  std::string address{};  // where the other hosts reach it
  std::string version{};  // the program's
  std::string fabric{};   // what its links go over: "sealed", "tcp", "ucx"
  std::string build{};    // a short name of the program's very bytes
  std::vector<Finding> own{};
  std::vector<std::string> other_keys{};  // in which its job differs from the first host's
  std::string data{};  // what data set it has; empty: none, and a finding of its own says why
  std::optional<ClockFacts> clock{};
  // Why the run folder is not shared with the first host's; empty: it is. Nothing: nobody looked.
  std::optional<std::string> folder{};
};

// Between two hosts, over a link as a run would have it. `b` connects to `a`.
struct LinkFacts {
  int a = 0;
  int b = 0;
  std::string error{};  // why there is none; then the figures say nothing
  double round_trip_us = 0;
  double to_a_mb_s = 0;
  double to_b_mb_s = 0;
};

struct ClusterFacts {
  std::vector<HostFacts> hosts;  // by rank
  std::vector<LinkFacts> links;
  std::string runs_dir;        // the first host's
  bool shared_folder = true;   // all hosts are to see it
  std::int64_t waited_s = 60;  // for the hosts to come
};

}  // namespace paceline::doctor
