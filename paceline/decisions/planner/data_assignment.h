// How many samples of the next batch each replica gets, for fixed replicas: JDMP's data assignment. Pure
// functions that need no cluster and no model, only the time of each replica.
//
// Replica g takes T_g = α_g + β_g·b_g/u for b_g > 0 samples in micro-batches of u, and nobody waits for a
// replica without samples. The program: minimise  P·θ + Σ e_g·b_g  subject to  T_g ≤ θ where b_g > 0,  Σ b_g
// = B, 0 ≤ b_g ≤ cap_g, and limits that are linear in θ and b. P is V plus the cost of time, and e_g is the
// cost of a sample (Lyapunov's V and the queues times their costs: queues.h).
//
// Without limits it has a closed form, water filling: θ is the smallest level to which the replicas can be
// filled with B samples, O(G log G). If samples have different costs, the cheapest replicas are filled first
// and θ is one of O(G) levels, O(G²·log G). Under one limit, and without sample costs, the answer in whole
// samples is found directly: θ is one of the times at which a replica can end, and the replicas with the
// least use of the limit get all the samples that they can finish by then. Only several limits that break
// each other need the solver.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::planner {

struct ReplicaTime {
  static constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();
  double alpha_ms = 0;                 // ≥ 0
  double beta_ms = 1;                  // time of one micro-batch; > 0
  std::int64_t most_samples = kNoCap;  // cap_g, set by memory; 0: the replica gets none
  double sample_cost = 0;              // e_g ≥ 0
};

// Σ per_sample_g · b_g + per_ms · θ ≤ most.
struct DataLimit {
  std::vector<double> per_sample;  // indexed by replica, ≥ 0
  double per_ms = 0;               // ≥ 0
  double most = 0;
};

struct DataProblem {
  std::vector<ReplicaTime> replicas;
  std::int64_t batch = 0;        // B ≥ 1
  std::int64_t micro_batch = 1;  // u ≥ 1
  double time_cost = 1;          // P > 0, cost of a millisecond
  std::vector<DataLimit> limits{};
};

// An assignment in fractions of samples.
struct DataShares {
  std::vector<double> samples;  // indexed by replica
  double time_ms = 0;           // θ
  double cost = 0;              // the program's objective
};

struct DataAssignment {
  std::vector<std::int64_t> samples;  // indexed by replica; Σ = B
  double time_ms = 0;                 // max over replicas with samples of α_g + β_g·⌈b_g/u⌉
};

// The closed form, which does not look at limits. Errors: ResourceExhausted when the caps add up to less than
// B.
absl::StatusOr<DataShares> fill(const DataProblem& problem);

// The program by the solver. Errors: as fill, and NotFound when no assignment keeps the limits.
absl::StatusOr<DataShares> solve_shares(const DataProblem& problem);

// The fastest whole samples that keep this limit. It ignores the problem's own limits and sample costs. O(G
// log G) for each of the up to G·B/u times that are tried. If `per_ms` is negative, a slower assignment keeps
// the limit; it then considers only assignments that pour samples as above.
// Errors: as fill, and NotFound when no assignment keeps the limit.
absl::StatusOr<DataAssignment> assign_within(const DataProblem& problem, const DataLimit& limit);

// Whole samples: fill, or, if there are limits, assign_within of one of them if that keeps the others, or
// else solve_shares. Shares are rounded to whole micro-batches, and each remaining sample goes to the replica
// that it delays least. Without sample costs, no assignment that keeps the limits is faster, if assign_within
// found it or there are no limits. Errors: as solve_shares.
absl::StatusOr<DataAssignment> assign_samples(const DataProblem& problem);

}  // namespace paceline::planner
