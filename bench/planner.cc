// How long planning takes: a whole plan from scratch by number of devices and layers, and the data assignment
// that is made for every batch. And how good plans are: beside the best of all plans, where all can be tried.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/planner/enumeration.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/decisions/planner/testing/every_plan.h"
#include "paceline/decisions/planner/testing/random_problem.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

planner::Problem problem_of(std::int32_t devices, std::int32_t layers) {
  planner::Problem problem;
  Rng rng(1);
  for (std::int32_t l = 0; l < layers; ++l) {
    problem.model.layers.push_back({fmt::format("layer{}", l), 0.2 + rng.uniform(), 1.0 / 3,
                                    static_cast<std::int64_t>(20'000 + rng.below(80'000)), 200'000,
                                    static_cast<std::int64_t>(rng.below(2'000'000))});
  }
  problem.batch = 512;
  problem.micro_batches = planner::powers_of_two_up_to(problem.batch);
  for (std::int32_t n = 0; n < devices; ++n) {
    planner::Device device;
    device.name = fmt::format("d{}", n);
    device.speed = 0.5 + 3 * rng.uniform();
    device.memory_bytes = static_cast<std::int64_t>(40e6 + 200e6 * rng.uniform());
    device.site = n % 3;
    device.servers = {0.1, 1e6};
    problem.cluster.devices.push_back(device);
  }
  for (std::int32_t from = 0; from < devices; ++from) {
    for (std::int32_t to = 0; to < devices; ++to)
      problem.cluster.links.push_back(from % 3 == to % 3 ? planner::Link{0.05, 1e6} : planner::Link{5, 5e4});
  }
  problem.cluster.server_bytes_per_ms = 5e6;
  return problem;
}

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

void add_plan(Table& table, std::int32_t devices, std::int32_t layers) {
  const planner::Problem problem = problem_of(devices, layers);
  const auto start = steady_clock::now();
  const auto planned = planner::make_plan(problem, {});
  const double ms = ms_since(start);
  PACELINE_CHECK(planned.ok(), "{}", planned.status().ToString());
  double best = planner::Evaluation::kInfinite;
  for (const planner::BaselineResult& baseline : planned->baselines)
    best = std::min(best, baseline.evaluation.batch_ms);
  table.add(fmt::format("{} × {} layers", devices, layers),
            {{"ms", ms},
             {"moves", static_cast<double>(planned->found.moves)},
             {"batch_ms", planned->forecast.batch_ms},
             {"best_baseline_ms", best}});
}

// Half to all of what the fastest plan costs, in a random measure.
void add_budget(Rng& rng, planner::Problem& problem) {
  const auto free = planner::make_plan(problem, {});
  if (!free.ok()) return;
  planner::Budget budget{static_cast<planner::CostKind>(rng.below(planner::kCostKinds)), 0,
                         rng.below(2) == 0};
  const double cost = free->found.evaluation.costs[budget.index()];
  budget.most = (0.5 + 0.5 * rng.uniform()) *
                (budget.per_second ? 1000 * cost / free->found.evaluation.batch_ms : cost);
  if (budget.most > 0) problem.budgets = {budget};
}

struct Clusters {
  std::size_t count;
  std::int32_t least_devices;
  std::int32_t most_devices;
  std::int32_t least_layers;
  std::int32_t most_layers;
  bool budgets;
};

// Small clusters by the dumb planner of the tests, larger ones by the faster way through all plans.
planner::Evaluation best_of_all(const planner::Evaluator& evaluator) {
  if (evaluator.problem().cluster.size() <= 4) return planner::testing::best_of_every_plan(evaluator);
  planner::Evaluation best;
  planner::for_each_plan(evaluator.problem(), [&](planner::Plan& plan) {
    const planner::Evaluation one = evaluator.assign(plan);
    if (one < best) best = one;
  });
  return best;
}

// How often the search finds the best of all plans of random clusters, and what it loses where it does not;
// half of them with little memory.
void add_optima(Table& table, const Clusters& clusters, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> millis;
  int optimal = 0;
  double worst = 0, exhaustive_ms = 0;
  while (millis.size() < clusters.count) {
    planner::testing::ProblemShape shape{clusters.least_devices, clusters.most_devices, clusters.least_layers,
                                         clusters.most_layers, 64};
    if (millis.size() % 2 == 0) shape.least_memory = 0.3, shape.most_memory = 2;
    planner::Problem problem = planner::testing::random_problem(rng, shape);
    if (clusters.budgets) add_budget(rng, problem);
    const planner::CostModel model(problem);
    const auto before = steady_clock::now();
    const planner::Evaluation best = best_of_all({model, planner::Goal::within_budgets()});
    exhaustive_ms += ms_since(before);
    if (!best.possible() || best.over > 0) continue;
    const auto start = steady_clock::now();
    const auto planned = planner::make_plan(problem, {});
    millis.push_back(ms_since(start));
    // A budget that it cannot keep counts as twice as slow.
    const double regret = planned.ok() ? planned->forecast.batch_ms / best.batch_ms - 1 : 1;
    optimal += regret < 1e-9 ? 1 : 0;
    worst = std::max(worst, regret);
  }
  const double slowest = *std::max_element(millis.begin(), millis.end());
  table.add(fmt::format("{} to {} × {} to {} layers{}", clusters.least_devices, clusters.most_devices,
                        clusters.least_layers, clusters.most_layers, clusters.budgets ? ", a budget" : ""),
            {{"clusters", static_cast<double>(clusters.count)},
             {"optimal", static_cast<double>(optimal)},
             {"worst_regret_percent", 100 * worst},
             {"median_ms", median(std::move(millis))},
             {"slowest_ms", slowest},
             {"exhaustive_ms", exhaustive_ms / static_cast<double>(clusters.count)}});
}

template <class Work>
double median_us(const Work& work) {
  std::vector<double> micros;
  for (int i = 0; i < 200; ++i) {
    const auto start = steady_clock::now();
    work();
    micros.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - start).count());
  }
  return median(std::move(micros));
}

void add_assignment(Table& table, std::size_t replicas, bool costs) {
  planner::DataProblem data{{}, 150 * static_cast<std::int64_t>(replicas), 8, 1};
  Rng rng(1);
  for (std::size_t g = 0; g < replicas; ++g) {
    data.replicas.push_back({5 * rng.uniform(), 0.5 + rng.uniform(),
                             200 + static_cast<std::int64_t>(rng.below(400)), costs ? rng.uniform() : 0});
  }
  table.add(
      fmt::format("assign to {}{}", replicas, costs ? ", costs" : ""),
      {{"us", median_us([&] { PACELINE_CHECK(planner::assign_samples(data).ok(), "no assignment"); })},
       {"program_us", median_us([&] { PACELINE_CHECK(planner::solve_shares(data).ok(), "no shares"); })}});
}

void measure_plans(Table& table) {
  for (const std::int32_t devices : {4, 8, 16, 32, 64}) add_plan(table, devices, 100);
}

void measure_optima(Table& table) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    add_optima(table, {100, 2, 4, 2, 6, false}, seed);
    add_optima(table, {100, 2, 4, 2, 6, true}, seed);
  }
  // More than a search tries.
  add_optima(table, {100, 5, 5, 8, 8, false}, 4);
  add_optima(table, {100, 5, 5, 8, 8, true}, 5);
  add_optima(table, {20, 6, 6, 8, 8, false}, 6);
}

void measure_assignments(Table& table) {
  for (const std::size_t replicas : {8u, 64u}) {
    for (const bool costs : {false, true}) add_assignment(table, replicas, costs);
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) {
  using namespace paceline::bench;
  if (argc < 5) run(argc, argv, measure_plans);
  run(argc, argv, measure_optima);
  return run(argc, argv, measure_assignments);
}
