// When a replica's batches are loaded: one at a time, first that of its newest release, then those that are
// reserved for it, in their order. What it has begun it finishes; what is not wanted any more is not begun.
// For virtual_cluster.h.
#pragma once

#include <vector>

#include "paceline/base/lease.h"
#include "paceline/base/time.h"
#include "paceline/control/orders.h"

namespace paceline::sim {

class Loader {
 public:
  // The release arrives at `now`, not before the one before it; a sample takes `sample_s`. When the samples
  // of its lease are all there.
  Time loaded(Time now, const control::Release& release, double sample_s);

 private:
  struct Load {
    Lease lease;
    Time begin;
    Time end;
  };
  void append(Time now, const Lease& lease, double sample_s);

  std::vector<Load> loads_;  // in order, of what the newest release wants
  Time free_{};              // from then on it can begin something new
};

}  // namespace paceline::sim
