// A process's regular report about itself: its memory and its traffic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::control {

struct Sent {
  std::string peer;        // the receiving process
  std::string kind;        // "gradients", "weights"
  std::int64_t bytes = 0;  // since the sender began; in a journal: since the run began
  friend bool operator==(const Sent&, const Sent&) = default;
};

struct ProcessReport {
  Time at;
  std::string process;  // "w2", "server0", "coordinator"
  std::int64_t resident_bytes = 0;
  std::vector<Sent> sent{};
};

}  // namespace paceline::control
