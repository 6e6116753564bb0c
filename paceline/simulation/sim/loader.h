// The loading of a replica's batches: one at a time, first that of its newest release, then those that are
// reserved for it, in their order. A batch that was begun is finished; a batch that is no longer wanted is
// not begun. For virtual_cluster.h.
#pragma once

#include <vector>

#include "paceline/base/lease.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/orders.h"

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

  std::vector<Load> loads_;  // in order; for the newest release
  Time free_{};              // from then on it can begin a new batch
};

}  // namespace paceline::sim
