// How many samples of the next batch each replica gets, when it is fixed what each replica is: JDMP's data
// assignment. Pure functions that need no cluster and no model, only how long each replica takes.
//
// Replica g takes T_g = α_g + β_g·b_g/u for b_g > 0 samples in micro-batches of u, and nobody waits for a
// replica without samples. The program: minimise  P·θ + Σ e_g·b_g  subject to  T_g ≤ θ where b_g > 0,  Σ b_g
// = B, 0 ≤ b_g ≤ cap_g, and limits that are linear in θ and b. P is V plus what time costs, e_g what a sample
// costs (Lyapunov's V and the queues times their costs: queues.h).
//
// Without limits it has a closed form, water filling: θ is the smallest level to which the replicas can be
// filled with B samples, O(G log G). Where samples cost unlike, the cheapest are filled first and θ is one of
// O(G) levels, O(G²·log G). Under one limit, where samples cost nothing else, the answer in whole samples is
// found directly: θ is one of the times at which a replica can end, and by then those whose samples use least
// are given all they can finish. Only several limits that break each other need the solver.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::planner {

struct ReplicaTime {
  static constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();
  double alpha_ms = 0;                 // ≥ 0
  double beta_ms = 1;                  // of one micro-batch; > 0
  std::int64_t most_samples = kNoCap;  // cap_g, of memory; 0: it gets none
  double sample_cost = 0;              // e_g ≥ 0
};

// Σ per_sample_g · b_g + per_ms · θ ≤ most.
struct DataLimit {
  std::vector<double> per_sample;  // by replica, ≥ 0
  double per_ms = 0;               // ≥ 0
  double most = 0;
};

struct DataProblem {
  std::vector<ReplicaTime> replicas;
  std::int64_t batch = 0;        // B ≥ 1
  std::int64_t micro_batch = 1;  // u ≥ 1
  double time_cost = 1;          // P > 0, of a millisecond
  std::vector<DataLimit> limits{};
};

// In fractions of samples.
struct DataShares {
  std::vector<double> samples;  // by replica
  double time_ms = 0;           // θ
  double cost = 0;              // the program's objective
};

struct DataAssignment {
  std::vector<std::int64_t> samples;  // by replica; Σ = B
  double time_ms = 0;                 // max over replicas with samples of α_g + β_g·⌈b_g/u⌉
};

// The closed form, which does not look at limits. Errors: ResourceExhausted when the caps add up to less than
// B.
absl::StatusOr<DataShares> fill(const DataProblem& problem);

// The program by the solver. Errors: as fill, and NotFound when no assignment keeps the limits.
absl::StatusOr<DataShares> solve_shares(const DataProblem& problem);

// The fastest whole samples that keep this limit, without looking at the problem's own or at sample costs.
// O(G log G) for each of the up to G·B/u times that are tried. Where `per_ms` is negative, being slower keeps
// the limit: then no slower assignment is looked for than those that pour samples as above.
// Errors: as fill, and NotFound when no assignment keeps the limit.
absl::StatusOr<DataAssignment> assign_within(const DataProblem& problem, const DataLimit& limit);

// Whole samples: fill, or where limits ask for it assign_within of one of them, if that keeps the others, or
// solve_shares. Shares are rounded to whole micro-batches, and what is left goes one by one to whom it delays
// least. Of assignments without sample costs none that keeps the limits is faster, where assign_within found
// it or there are none. Errors: as solve_shares.
absl::StatusOr<DataAssignment> assign_samples(const DataProblem& problem);

}  // namespace paceline::planner
