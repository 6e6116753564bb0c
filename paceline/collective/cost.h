// What a schedule costs on given links, counted on its steps. Pure; for models of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/collective/schedule.h"

namespace paceline::collective {

// Of one rank, in bytes: what the others read of it, and what it reads of them.
struct Traffic {
  std::int64_t up = 0;
  std::int64_t down = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// By rank. For one phase, ask for a plan of that phase alone.
std::vector<Traffic> traffic(const Plan& plan);

// A rank's link, both directions at once.
struct LinkRate {
  double bytes_per_second;
  Duration latency{0};
};

// How long all ranks take from a start together. A chunk that is finished can be asked for a latency of the
// reader's link later, and moves at the slower of both rates; each direction of a link carries one chunk at a
// time; arithmetic takes no time. O(steps · ranks), so take large chunks where many plans are compared.
Duration time_of(const Plan& plan, std::span<const LinkRate> links);

}  // namespace paceline::collective
