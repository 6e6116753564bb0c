// Whole samples under one limit: assign_within of data_assignment.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/data_assignment.h"

namespace paceline::planner {

namespace {

// The most samples that the replica finishes by `level`.
std::int64_t room_by(const ReplicaTime& replica, double level, std::int64_t u, std::int64_t batch) {
  const double parts = (level - replica.alpha_ms) / replica.beta_ms;
  if (parts <= 0) return 0;
  const double most = static_cast<double>(batch);
  const auto whole = static_cast<std::int64_t>(std::floor(std::min(parts * (1 + 1e-12) + 1e-12, most)));
  return std::min({whole * u, replica.most_samples, batch});
}

double time_of(const ReplicaTime& replica, std::int64_t samples, std::int64_t u) {
  if (samples == 0) return 0;
  return replica.alpha_ms + replica.beta_ms * static_cast<double>((samples + u - 1) / u);
}

// Every time at which a replica may end, above `least`, ascending.
std::vector<double> ends_above(const DataProblem& problem, double least) {
  std::vector<double> ends;
  for (const ReplicaTime& replica : problem.replicas) {
    const std::int64_t most = std::min(replica.most_samples, problem.batch);
    const std::int64_t parts = (most + problem.micro_batch - 1) / problem.micro_batch;
    for (std::int64_t k = parts; k > 0; --k) {
      const double end = replica.alpha_ms + replica.beta_ms * static_cast<double>(k);
      if (end <= least) break;
      ends.push_back(end);
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

}  // namespace

absl::StatusOr<DataAssignment> assign_within(const DataProblem& problem, const DataLimit& limit) {
  DataProblem free = problem;
  free.limits.clear();
  PACELINE_ASSIGN_OR_RETURN(const DataAssignment fastest, assign_samples(free));
  std::vector<std::size_t> order(problem.replicas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return limit.per_sample[a] < limit.per_sample[b]; });
  // Gives the replicas that use least of the limit all samples that they finish by `level`, and returns their
  // use.
  const auto pour = [&](double level, DataAssignment& into) {
    std::int64_t left = problem.batch;
    double used = 0;
    into = {std::vector<std::int64_t>(problem.replicas.size()), 0};
    for (const std::size_t g : order) {
      const ReplicaTime& replica = problem.replicas[g];
      const std::int64_t samples =
          std::min(left, room_by(replica, level, problem.micro_batch, problem.batch));
      into.samples[g] = samples;
      into.time_ms = std::max(into.time_ms, time_of(replica, samples, problem.micro_batch));
      used += limit.per_sample[g] * static_cast<double>(samples);
      left -= samples;
    }
    return left > 0 ? std::numeric_limits<double>::infinity() : used;
  };
  const double most = limit.most + 1e-9 * std::abs(limit.most);
  DataAssignment found;
  if (pour(fastest.time_ms, found) + limit.per_ms * found.time_ms <= most) return found;
  const double least = pour(std::numeric_limits<double>::infinity(), found);
  for (const double level : ends_above(problem, fastest.time_ms)) {
    if (limit.per_ms >= 0 && least + limit.per_ms * level > most) break;
    if (pour(level, found) + limit.per_ms * found.time_ms <= most) return found;
  }
  return absl::NotFoundError("no assignment of the samples keeps the limit");
}

}  // namespace paceline::planner
