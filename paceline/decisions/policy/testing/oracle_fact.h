// The facts that an oracle takes and the answers that it gives: the same words for every second
// implementation.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::policy::testing {

struct Fact {
  enum class What { kJoin, kLeave, kReady } what;
  int replica;
  Time now;
  Duration compute;
  std::int64_t base = 0;  // the version a gradient was computed on
};

// The answer to one fact, made comparable: commits in order; released replicas in order of id.
struct Answer {
  std::vector<std::vector<int>> commits;
  std::vector<int> discards;
  std::vector<int> releases;
  friend bool operator==(const Answer&, const Answer&) = default;
};

}  // namespace paceline::policy::testing
