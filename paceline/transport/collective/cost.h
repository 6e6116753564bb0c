// The cost of a schedule on given links, counted from its steps. Pure; for models of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/transport/collective/schedule.h"

namespace paceline::collective {

// The bytes of one rank: those that others read from it, and those that it reads from them.
struct Traffic {
  std::int64_t up = 0;
  std::int64_t down = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// The traffic of each rank. For one phase, ask for a plan with only that phase.
std::vector<Traffic> traffic(const Plan& plan);

// A rank's link, both directions at once.
struct LinkRate {
  double bytes_per_second;
  Duration latency{0};
};

// The time until all ranks are done, from a start together. A finished chunk can be read after the latency of
// the reader's link, and moves at the slower of both rates. Each direction of a link carries one chunk at a
// time. Arithmetic takes no time. O(steps · ranks), so take large chunks to compare many plans.
Duration time_of(const Plan& plan, std::span<const LinkRate> links);

}  // namespace paceline::collective
