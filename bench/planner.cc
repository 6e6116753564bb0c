// How long planning takes: a whole plan from scratch by number of devices and layers, and the data assignment
// that is made for every batch.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/planner/planner.h"

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

void add_plan(Table& table, std::int32_t devices, std::int32_t layers) {
  const planner::Problem problem = problem_of(devices, layers);
  const auto start = steady_clock::now();
  const auto planned = planner::make_plan(problem, {});
  const double ms = std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
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

void measure_assignments(Table& table) {
  for (const std::size_t replicas : {8u, 64u}) {
    for (const bool costs : {false, true}) add_assignment(table, replicas, costs);
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) {
  using namespace paceline::bench;
  run(argc, argv, measure_plans);
  return run(argc, argv, measure_assignments);
}
