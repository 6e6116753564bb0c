// How long iterations take if they are not measured, or if a faster device imitates a slower one: their
// spread, and slowdowns that come and go. Pure: the same seed, device and iteration give the same length, in
// every world.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// How much the iterations of one device differ from each other.
struct Unevenness {
  double jitter = 0;       // standard deviation / mean of a log-normal factor with mean 1
  double slow_chance = 0;  // chance that an iteration takes slow_least to slow_most times longer (uniform)
  double slow_least = 2;
  double slow_most = 5;
};

// From at_s to until_s of the job's time, device number `device` is `factor` times slower: the iterations
// that start then.
struct Slowdown {
  std::int64_t device = 0;
  double at_s = 0;
  double until_s = 0;
  double factor = 1;
};

// The keys jitter, slow_chance and slow_factor = [least, most] of a [[device]].
Unevenness read_unevenness(Section& section);

// The factor of iteration `clock`.
double unevenness_factor(const Unevenness& unevenness, std::uint64_t seed, std::int64_t device, Clock clock);
// The mean factor of the iterations that a replica takes by itself in one release (local SGD), number `clock` of its
// releases. `steps`: how many; 0 counts as 1. With one it is the factor of iteration `clock`.
double unevenness_factor(const Unevenness& unevenness, std::uint64_t seed, std::int64_t device, Clock clock,
                         std::int64_t steps);

// The factor of an iteration of `device` that starts at `start`.
double slowdown_factor(std::span<const Slowdown> slowdowns, std::int64_t device, Time start);

}  // namespace paceline::config
