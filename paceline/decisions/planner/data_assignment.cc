#include "paceline/decisions/planner/data_assignment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/linear_program.h"

namespace paceline::planner {

namespace {

// Rows and variables of the program with the replicas `in` allowed samples: their b, and θ last.
LinearProgram program_of(const DataProblem& problem, const std::vector<std::size_t>& in) {
  LinearProgram program;
  const auto batch = static_cast<double>(problem.batch);
  LinearRow all{std::vector<double>(in.size() + 1, 1.0), batch, batch};
  all.weights.back() = 0;
  double least_time = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const ReplicaTime& replica = problem.replicas[in[i]];
    program.variables.push_back(
        {replica.sample_cost, 0, static_cast<double>(std::min(replica.most_samples, problem.batch))});
    LinearRow time{std::vector<double>(in.size() + 1), -kUnbounded, -replica.alpha_ms};
    time.weights[i] = replica.beta_ms / static_cast<double>(problem.micro_batch);
    time.weights.back() = -1;
    program.rows.push_back(std::move(time));
    least_time = std::max(least_time, replica.alpha_ms);
  }
  program.variables.push_back({problem.time_cost, least_time, kUnbounded});
  program.rows.push_back(std::move(all));
  for (const DataLimit& limit : problem.limits) {
    LinearRow row{std::vector<double>(in.size() + 1), -kUnbounded, limit.most};
    for (std::size_t i = 0; i < in.size(); ++i) row.weights[i] = limit.per_sample[in[i]];
    row.weights.back() = limit.per_ms;
    program.rows.push_back(std::move(row));
  }
  return program;
}

double used_by(const DataLimit& limit, const std::vector<double>& samples, double time_ms) {
  double used = limit.per_ms * time_ms;
  for (std::size_t g = 0; g < samples.size(); ++g) used += limit.per_sample[g] * samples[g];
  return used;
}

// The largest relative overshoot of a limit; 0 if all limits are kept.
double excess(const DataProblem& problem, const std::vector<double>& samples, double time_ms) {
  double worst = 0;
  for (const DataLimit& limit : problem.limits) {
    const double over = used_by(limit, samples, time_ms) - limit.most;
    if (over > 1e-9 * std::abs(limit.most)) worst = std::max(worst, over / std::max(limit.most, 1e-12));
  }
  return worst;
}

double iteration_ms(const ReplicaTime& replica, std::int64_t samples, std::int64_t micro_batch) {
  if (samples == 0) return 0;
  return replica.alpha_ms + replica.beta_ms * static_cast<double>((samples + micro_batch - 1) / micro_batch);
}

bool samples_cost(const DataProblem& problem) {
  return std::any_of(problem.replicas.begin(), problem.replicas.end(),
                     [](const ReplicaTime& replica) { return replica.sample_cost > 0; });
}

// The rest goes to whom it costs least, a micro-batch at a time; `whole` is all that was given before.
void give_rest(const DataProblem& problem, std::int64_t left, DataAssignment& whole) {
  const std::int64_t u = problem.micro_batch;
  while (left > 0) {
    std::size_t best = 0;
    std::int64_t best_part = 0;
    double best_cost = kUnbounded, best_time = 0;
    for (std::size_t g = 0; g < whole.samples.size(); ++g) {
      const ReplicaTime& replica = problem.replicas[g];
      const std::int64_t part =
          std::min({u - whole.samples[g] % u, left, replica.most_samples - whole.samples[g]});
      if (part <= 0) continue;
      const double time = iteration_ms(replica, whole.samples[g] + part, u);
      const double cost = problem.time_cost * std::max(0.0, time - whole.time_ms) +
                          replica.sample_cost * static_cast<double>(part);
      if (cost > best_cost || (cost == best_cost && time >= best_time)) continue;
      best = g, best_part = part, best_cost = cost, best_time = time;
    }
    PACELINE_CHECK(best_part > 0, "{} samples fit nowhere", left);
    whole.samples[best] += best_part;
    whole.time_ms = std::max(whole.time_ms, best_time);
    left -= best_part;
  }
}

// The same if only time costs: it costs least to give to whom has the least time with it, whatever the others have.
void give_rest_by_time(const DataProblem& problem, std::int64_t left, DataAssignment& whole) {
  const std::int64_t u = problem.micro_batch;
  using Next = std::pair<double, std::size_t>;  // time with another micro-batch; replica
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](std::size_t g) {
    const ReplicaTime& replica = problem.replicas[g];
    const std::int64_t room = std::min(u - whole.samples[g] % u, replica.most_samples - whole.samples[g]);
    if (room > 0) next.emplace(iteration_ms(replica, whole.samples[g] + 1, u), g);
  };
  for (std::size_t g = 0; g < whole.samples.size(); ++g) offer(g);
  while (left > 0) {
    PACELINE_CHECK(!next.empty(), "{} samples fit nowhere", left);
    const auto [time, g] = next.top();
    next.pop();
    const std::int64_t part =
        std::min({u - whole.samples[g] % u, left, problem.replicas[g].most_samples - whole.samples[g]});
    whole.samples[g] += part;
    whole.time_ms = std::max(whole.time_ms, time);
    left -= part;
    offer(g);
  }
}

// Whole micro-batches of the shares; what is left goes, a micro-batch at a time, to whom it costs least. O(P log P),
// or O(P²) if samples cost.
DataAssignment rounded(const DataProblem& problem, const DataShares& shares) {
  const std::int64_t u = problem.micro_batch;
  DataAssignment whole{std::vector<std::int64_t>(shares.samples.size()), 0};
  std::int64_t left = problem.batch;
  for (std::size_t g = 0; g < shares.samples.size(); ++g) {
    // A share that is a whole number but for rounding counts as one.
    const double parts = shares.samples[g] / static_cast<double>(u);
    std::int64_t samples = static_cast<std::int64_t>(std::floor(parts * (1 + 1e-12) + 1e-9)) * u;
    samples = std::min({samples, left, problem.replicas[g].most_samples});
    whole.samples[g] = samples;
    whole.time_ms = std::max(whole.time_ms, iteration_ms(problem.replicas[g], samples, u));
    left -= samples;
  }
  if (samples_cost(problem)) {
    give_rest(problem, left, whole);
  } else {
    give_rest_by_time(problem, left, whole);
  }
  return whole;
}

}  // namespace

absl::StatusOr<DataShares> solve_shares(const DataProblem& problem) {
  PACELINE_RETURN_IF_ERROR(fill(problem).status());
  // A replica with samples has α ≤ θ: of replicas in the order of α, some first ones. Each such choice is a
  // program.
  std::vector<std::size_t> order(problem.replicas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return problem.replicas[a].alpha_ms < problem.replicas[b].alpha_ms;
  });
  std::optional<DataShares> best;
  std::vector<std::size_t> in;
  for (std::size_t i = 0; i < order.size(); ++i) {
    in.push_back(order[i]);
    const double alpha = problem.replicas[order[i]].alpha_ms;
    if (i + 1 < order.size() && problem.replicas[order[i + 1]].alpha_ms == alpha) continue;
    if (best && problem.time_cost * alpha >= best->cost) break;
    const auto solved = solve(program_of(problem, in));
    if (absl::IsNotFound(solved.status())) continue;
    PACELINE_RETURN_IF_ERROR(solved.status());
    if (best && best->cost <= solved->value) continue;
    best = DataShares{std::vector<double>(order.size()), solved->x.back(), solved->value};
    for (std::size_t j = 0; j < in.size(); ++j) best->samples[in[j]] = solved->x[j];
  }
  if (!best) return absl::NotFoundError("no assignment of the samples keeps the limits");
  return *std::move(best);
}

absl::StatusOr<DataAssignment> assign_samples(const DataProblem& problem) {
  PACELINE_ASSIGN_OR_RETURN(DataShares shares, fill(problem));
  const auto doubles = [](const std::vector<std::int64_t>& samples) {
    return std::vector<double>(samples.begin(), samples.end());
  };
  DataAssignment whole = rounded(problem, shares);
  if (excess(problem, doubles(whole.samples), whole.time_ms) <= 0) return whole;
  if (!samples_cost(problem)) {
    // If the fastest assignment under one limit keeps the others, it is the fastest under all of them.
    for (const DataLimit& limit : problem.limits) {
      PACELINE_ASSIGN_OR_RETURN(whole, assign_within(problem, limit));
      if (excess(problem, doubles(whole.samples), whole.time_ms) <= 0) return whole;
    }
  }
  // Rounding may go over a limit again; then it is drawn tighter by as much.
  DataProblem tightened = problem;
  constexpr int kTries = 4;
  for (int i = 0; i < kTries && excess(problem, doubles(whole.samples), whole.time_ms) > 0; ++i) {
    PACELINE_ASSIGN_OR_RETURN(shares, solve_shares(tightened));
    whole = rounded(problem, shares);
    for (std::size_t k = 0; k < problem.limits.size(); ++k) {
      const double over =
          used_by(problem.limits[k], doubles(whole.samples), whole.time_ms) - problem.limits[k].most;
      if (over > 0) tightened.limits[k].most -= over;
    }
  }
  if (excess(problem, doubles(whole.samples), whole.time_ms) > 0)
    return absl::NotFoundError("no assignment of whole samples was found that keeps the limits");
  return whole;
}

}  // namespace paceline::planner
