// Data assignment three ways: the closed form, the solver, and every assignment of whole samples.
#include "paceline/decisions/planner/data_assignment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/planner/linear_program.h"

namespace paceline::planner {
namespace {

struct Shape {
  std::uint64_t most_replicas;
  std::uint64_t most_batch;
  bool caps = false;
  bool costs = false;
  std::uint64_t most_micro_batch = 1;
};

DataProblem random_data_problem(Rng& rng, const Shape& shape) {
  DataProblem problem;
  problem.batch = 1 + static_cast<std::int64_t>(rng.below(shape.most_batch));
  problem.micro_batch = 1 + static_cast<std::int64_t>(rng.below(shape.most_micro_batch));
  problem.time_cost = 0.5 + rng.uniform();
  problem.replicas.resize(1 + rng.below(shape.most_replicas));
  for (ReplicaTime& replica : problem.replicas) {
    replica.alpha_ms = rng.below(3) == 0 ? 0 : 20 * rng.uniform();
    replica.beta_ms = 0.2 + 5 * rng.uniform();
    if (shape.caps) replica.most_samples = static_cast<std::int64_t>(rng.below(shape.most_batch));
    if (shape.costs) replica.sample_cost = static_cast<double>(rng.below(3)) * rng.uniform();
  }
  return problem;
}

double time_of(const DataProblem& problem, const std::vector<std::int64_t>& samples) {
  double time = 0;
  for (std::size_t g = 0; g < samples.size(); ++g) {
    if (samples[g] == 0) continue;
    const auto parts = (samples[g] + problem.micro_batch - 1) / problem.micro_batch;
    time = std::max(time, problem.replicas[g].alpha_ms + problem.replicas[g].beta_ms * double(parts));
  }
  return time;
}

double cost_of(const DataProblem& problem, const std::vector<std::int64_t>& samples) {
  double cost = problem.time_cost * time_of(problem, samples);
  for (std::size_t g = 0; g < samples.size(); ++g)
    cost += problem.replicas[g].sample_cost * double(samples[g]);
  return cost;
}

// Calls `visit` with every way to divide the batch that keeps the caps.
void every_assignment(const DataProblem& problem,
                      const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> samples(problem.replicas.size());
  const std::function<void(std::size_t, std::int64_t)> place = [&](std::size_t g, std::int64_t left) {
    if (g + 1 == samples.size()) {
      samples[g] = left;
      if (left <= problem.replicas[g].most_samples) visit(samples);
      return;
    }
    for (samples[g] = 0; samples[g] <= std::min(left, problem.replicas[g].most_samples); ++samples[g])
      place(g + 1, left - samples[g]);
  };
  place(0, problem.batch);
}

TEST(DataAssignment, TheSolverAgreesWithTheClosedForm) {
  Rng rng(1);
  int impossible = 0;
  for (const Shape& shape : {Shape{6, 100}, Shape{6, 100, true}, Shape{6, 100, false, true},
                             Shape{6, 100, true, true}, Shape{5, 40, true, true, 8}}) {
    for (std::uint64_t i = 0; i < effort::part_of(1000); ++i) {
      const DataProblem problem = random_data_problem(rng, shape);
      const auto closed = fill(problem);
      const auto solved = solve_shares(problem);
      ASSERT_EQ(closed.ok(), solved.ok()) << closed.status() << solved.status();
      if (!closed.ok()) {
        ++impossible;
        ASSERT_TRUE(absl::IsResourceExhausted(closed.status()));
        continue;
      }
      ASSERT_NEAR(closed->cost, solved->cost, 1e-6 * (1 + closed->cost)) << i;
      ASSERT_NEAR(std::accumulate(closed->samples.begin(), closed->samples.end(), 0.0), double(problem.batch),
                  1e-9 * double(problem.batch));
    }
  }
  EXPECT_GT(impossible, effort::kSanitized ? 10 : 100);
}

TEST(DataAssignment, NoWholeAssignmentIsFaster) {
  Rng rng(2);
  for (const Shape& shape : {Shape{3, 14}, Shape{3, 14, true}, Shape{3, 14, true, false, 4}}) {
    for (int i = 0; i < 1000; ++i) {
      const DataProblem problem = random_data_problem(rng, shape);
      double best = kUnbounded;
      every_assignment(problem,
                       [&](const auto& samples) { best = std::min(best, time_of(problem, samples)); });
      const auto found = assign_samples(problem);
      ASSERT_EQ(found.ok(), best < kUnbounded) << found.status();
      if (!found.ok()) continue;
      ASSERT_NEAR(found->time_ms, best, 1e-9) << i;
      ASSERT_DOUBLE_EQ(found->time_ms, time_of(problem, found->samples));
      ASSERT_EQ(std::accumulate(found->samples.begin(), found->samples.end(), std::int64_t{0}),
                problem.batch);
      for (std::size_t g = 0; g < found->samples.size(); ++g)
        ASSERT_LE(found->samples[g], problem.replicas[g].most_samples);
    }
  }
}

TEST(DataAssignment, FractionsAreABoundForWholeSamples) {
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    const DataProblem problem = random_data_problem(rng, {3, 12, true, true});
    double best = kUnbounded;
    every_assignment(problem, [&](const auto& samples) { best = std::min(best, cost_of(problem, samples)); });
    const auto shares = fill(problem);
    ASSERT_EQ(shares.ok(), best < kUnbounded);
    if (!shares.ok()) continue;
    ASSERT_LE(shares->cost, best + 1e-9);
    const auto whole = assign_samples(problem);
    ASSERT_TRUE(whole.ok());
    // A sample of each replica is all that rounding moves.
    double grain = 0;
    for (const ReplicaTime& r : problem.replicas)
      grain = std::max(grain, r.alpha_ms + r.beta_ms * 1) + r.sample_cost;
    ASSERT_LE(cost_of(problem, whole->samples), shares->cost + problem.time_cost * grain + grain);
  }
}

TEST(DataAssignment, LimitsAreKeptWhereTheyCanBe) {
  Rng rng(4);
  int kept = 0, broken_by_fill = 0;
  for (int i = 0; i < 3000; ++i) {
    DataProblem problem = random_data_problem(rng, {3, 10, i % 2 == 0, false, i % 3 == 0 ? 4u : 1u});
    DataLimit limit{{}, rng.below(2) == 0 ? 0 : rng.uniform(), 0};
    for (std::size_t g = 0; g < problem.replicas.size(); ++g) limit.per_sample.push_back(4 * rng.uniform());
    limit.most = double(problem.batch) * (0.5 + 3 * rng.uniform());
    problem.limits = {limit};
    const auto used = [&](const std::vector<std::int64_t>& samples) {
      double sum = limit.per_ms * time_of(problem, samples);
      for (std::size_t g = 0; g < samples.size(); ++g) sum += limit.per_sample[g] * double(samples[g]);
      return sum;
    };
    double best = kUnbounded;
    every_assignment(problem, [&](const auto& samples) {
      if (used(samples) <= limit.most) best = std::min(best, time_of(problem, samples));
    });
    const auto found = assign_samples(problem);
    const auto relaxed = solve_shares(problem);
    ASSERT_TRUE(relaxed.ok() || best == kUnbounded) << relaxed.status();
    ASSERT_EQ(found.ok(), best < kUnbounded) << i << found.status();
    if (!found.ok()) continue;
    ++kept;
    ASSERT_LE(used(found->samples), limit.most * (1 + 1e-9));
    ASSERT_NEAR(best, found->time_ms, 1e-9) << i;
    ASSERT_LE(relaxed->time_ms, best + 1e-6);
    problem.limits.clear();
    if (used(assign_samples(problem)->samples) > limit.most) ++broken_by_fill;
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(broken_by_fill, 100);
}

TEST(DataAssignment, SeveralLimitsAreKeptWhereTheyCanBe) {
  Rng rng(5);
  int kept = 0, fastest = 0;
  for (int i = 0; i < 2000; ++i) {
    DataProblem problem = random_data_problem(rng, {3, 10});
    for (int k = 0; k < 2; ++k) {
      DataLimit& limit = problem.limits.emplace_back();
      for (std::size_t g = 0; g < problem.replicas.size(); ++g) limit.per_sample.push_back(4 * rng.uniform());
      limit.most = double(problem.batch) * (1 + 3 * rng.uniform());
    }
    const auto keeps = [&](const std::vector<std::int64_t>& samples) {
      return std::all_of(problem.limits.begin(), problem.limits.end(), [&](const DataLimit& limit) {
        double sum = 0;
        for (std::size_t g = 0; g < samples.size(); ++g) sum += limit.per_sample[g] * double(samples[g]);
        return sum <= limit.most * (1 + 1e-9);
      });
    };
    double best = kUnbounded;
    every_assignment(problem, [&](const auto& samples) {
      if (keeps(samples)) best = std::min(best, time_of(problem, samples));
    });
    const auto found = assign_samples(problem);
    if (!found.ok()) continue;
    ++kept;
    ASSERT_TRUE(keeps(found->samples)) << i;
    ASSERT_GE(found->time_ms, best - 1e-9) << i;
    if (found->time_ms < best + 1e-9) ++fastest;
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(fastest, kept * 9 / 10);
}

TEST(DataAssignment, TheClosedFormOfThePaper) {
  // θ* = (B + Σ α u/β) / (Σ u/β), if every replica has samples.
  const DataProblem problem{{{2, 1}, {4, 2}, {0, 4}}, 100, 2, 1};
  const double level = (100 + 2 * 2 / 1.0 + 4 * 2 / 2.0) / (2 / 1.0 + 2 / 2.0 + 2 / 4.0);
  const auto shares = fill(problem);
  ASSERT_TRUE(shares.ok());
  EXPECT_DOUBLE_EQ(shares->time_ms, level);
  EXPECT_DOUBLE_EQ(shares->samples[0], (level - 2) * 2);
}

TEST(DataAssignment, LeavesOutReplicasThatWouldStartTooLate) {
  const DataProblem problem{{{0, 1}, {50, 1}}, 10, 1, 1};
  EXPECT_EQ(assign_samples(problem)->samples, (std::vector<std::int64_t>{10, 0}));
}

TEST(DataAssignment, TooLittleMemoryIsSaidInSamples) {
  const DataProblem problem{{{0, 1, 3}, {0, 1, 4}}, 10, 1, 1};
  EXPECT_EQ(assign_samples(problem).status().message(),
            "the replicas have memory for 7 samples of a batch of 10; 3 too few");
}

}  // namespace
}  // namespace paceline::planner
