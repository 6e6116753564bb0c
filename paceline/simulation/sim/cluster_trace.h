// The true state of a cluster through time, and what a batch takes in it. For planned_run.h. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/decisions/planner/measurements.h"
#include "paceline/formats/config/cluster_file.h"

namespace paceline::sim {

class ClusterTrace {
 public:
  // Keeps a reference to the file.
  explicit ClusterTrace(const config::ClusterFile& file);

  // The state at this time; devices that have come or gone since the last call go into `seen`.
  void advance(double now_ms, planner::BatchObservation& seen);
  const planner::Problem& now() const { return truth_; }
  // Runs a batch by the exact schedule; what is measured of it goes into `seen`. The time without migrating.
  double run(std::int64_t batch, const planner::Plan& plan, planner::BatchObservation& seen) const;

 private:
  // Log-normal with a mean of 1; the same for the same batch and place.
  double uneven(double spread, std::int64_t batch, std::uint64_t what, std::uint64_t place) const;
  void observe(std::int64_t batch, const planner::CostModel& model, const planner::Plan& plan,
               const planner::PlannedReplica& replica, const std::vector<planner::PlannedStage>& stages,
               std::size_t s, std::size_t turn, planner::BatchObservation& seen) const;
  void probe(std::int64_t batch, const planner::CostModel& model, const planner::Plan& plan,
             planner::BatchObservation& seen) const;
  void apply(const config::ClusterChange& change, planner::BatchObservation& seen);

  const config::ClusterFile& file_;
  planner::Problem truth_;
  std::size_t next_ = 0;  // change
};

// The problem as it stands at the start: a device whose first change is a join is not there yet.
planner::Problem initial_problem(const config::ClusterFile& file);

}  // namespace paceline::sim
