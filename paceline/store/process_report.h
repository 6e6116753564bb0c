// What a process of a run says of itself every now and then, beside what it does for the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::store {

struct Sent {
  std::string peer;        // the process that it went to
  std::string kind;        // "gradients", "weights"
  std::int64_t bytes = 0;  // since the sender began; in a journal, since the run did
  friend bool operator==(const Sent&, const Sent&) = default;
};

struct ProcessReport {
  Time at;
  std::string process;  // "w2", "server0", "coordinator"
  std::int64_t resident_bytes = 0;
  std::vector<Sent> sent{};
};

}  // namespace paceline::store
