// The measurements of a batch, and the problem as they describe it: speeds, links, the time of
// synchronization and prices, with the averages of estimates.h. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/decisions/planner/cost_model.h"
#include "paceline/decisions/planner/estimates.h"

namespace paceline::planner {

struct StageObservation {
  std::int32_t device = 0;
  std::int32_t begin = 0, end = 0;  // layers
  std::int64_t samples = 0;
  std::int64_t micro_batches = 0;
  double compute_ms = 0;  // forward and backward, of all samples together
};

struct LinkObservation {  // one transfer in one direction
  std::int32_t from = 0, to = 0;
  double bytes = 0;
  double ms = 0;
  bool shared = false;  // other transfers used the link at the same time, so it may carry more
};

struct OutOfMemory {  // a device had no memory for its stage of the plan
  std::int32_t device = 0;
  std::int64_t samples = 0;  // samples of its replica; 0: as the plan says
};

struct PriceObservation {
  std::int32_t device = 0;
  double price_per_hour = 0;
};

// One batch, done under current(), and the probes beside it: only a probe shows that a link or a device
// outside the plan has become better. Missing measurements may be left out.
struct BatchObservation {
  double batch_ms = 0;  // from the start to the new weights, migrating included
  std::optional<double> sync_ms;
  std::vector<StageObservation> stages;
  std::vector<LinkObservation> links;
  std::vector<PriceObservation> prices;
  std::vector<std::int32_t> joined, left;  // devices, since the last batch
  std::vector<OutOfMemory> out_of_memory;
};

class Measurements {
 public:
  // `alike`: an unmeasured link counts as the average of the measured links with the same description.
  // Otherwise its own description counts.
  explicit Measurements(Problem initial, bool alike = false);

  // `plan`: the plan that the batch was done with. Impossible values are left out.
  void add(const BatchObservation& observation, const Plan& plan);
  // Takes in the devices that came or left. Returns those whose presence changed.
  std::vector<std::int32_t> apply_membership(const BatchObservation& observation);

  // Takes the devices that had no memory for their stages of `plan` for smaller than what these stages need. Returns
  // whether any is.
  bool lower_memory(const BatchObservation& observation, const Plan& plan);

  void limit_memory(std::int32_t device, std::int64_t bytes);

  // The problem with everything as it was last measured.
  const Problem& problem() const { return problem_; }
  const Problem& initial() const { return initial_; }
  // The measured time of a device's work over that of the initial problem.
  double slowness(std::int32_t device) const { return slowness_[static_cast<std::size_t>(device)].value(); }

 private:
  void add_stage(const StageObservation& stage);
  void add_link(const LinkObservation& seen);
  void learn_from(std::size_t link);
  void add_sync(double ms, const Plan& plan);

  Problem initial_;
  Problem problem_;
  std::vector<ClippedMean> slowness_;  // indexed by device
  std::vector<LinkEstimate> links_;
  const bool alike_;
  struct Shares {
    double sum = 0, count = 0;
    double mean() const { return count > 0 ? sum / count : 1; }
  };
  std::vector<bool> learnt_;                            // the links that `shares_` already counts
  std::map<std::pair<double, double>, Shares> shares_;  // measured over said; by what was said
  ClippedMean sync_{1};                                 // measured over that of the initial problem
};

}  // namespace paceline::planner
