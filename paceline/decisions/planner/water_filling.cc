// The closed form of data_assignment.h.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/decisions/planner/data_assignment.h"

namespace paceline::planner {

namespace {

// A replica in the terms of the closed form: it holds rate · (θ − start) samples, between 0 and cap.
struct Vessel {
  double start = 0;
  double rate = 0;
  double cap = 0;
  double cost = 0;

  double at(double level) const { return std::clamp((level - start) * rate, 0.0, cap); }
  double full() const { return start + cap / rate; }
};

std::vector<Vessel> vessels_of(const DataProblem& problem) {
  std::vector<Vessel> vessels;
  vessels.reserve(problem.replicas.size());
  for (const ReplicaTime& replica : problem.replicas) {
    PACELINE_CHECK(replica.beta_ms > 0, "a micro-batch takes {} ms", replica.beta_ms);
    vessels.push_back({replica.alpha_ms, static_cast<double>(problem.micro_batch) / replica.beta_ms,
                       static_cast<double>(std::min(replica.most_samples, problem.batch)),
                       replica.sample_cost});
  }
  return vessels;
}

// The smallest level to which the vessels hold `amount`; nothing when they cannot.
std::optional<double> level_of(const std::vector<Vessel>& vessels, double amount) {
  std::vector<std::pair<double, double>> bends;  // level, change of the rate there
  bends.reserve(2 * vessels.size());
  double most = 0;
  for (const Vessel& vessel : vessels) {
    most += vessel.cap;
    if (vessel.cap <= 0) continue;
    bends.emplace_back(vessel.start, vessel.rate);
    bends.emplace_back(vessel.full(), -vessel.rate);
  }
  if (most < amount) return std::nullopt;
  std::sort(bends.begin(), bends.end());
  double held = 0, rate = 0, level = 0;
  for (const auto& [bend, change] : bends) {
    const double next = held + rate * (bend - level);
    // A vessel may be full a last bit below its cap.
    if (next >= amount * (1 - 1e-12)) return std::min(bend, level + std::max(0.0, amount - held) / rate);
    held = next;
    rate += change;
    level = bend;
  }
  return level;
}

// Fills the vessels in the order of `order` to `level` until `amount` is placed.
DataShares pour(const std::vector<Vessel>& vessels, const std::vector<std::size_t>& order, double level,
                double amount, double time_cost) {
  DataShares shares{std::vector<double>(vessels.size()), level, time_cost * level};
  for (const std::size_t g : order) {
    const double part = std::min(amount, vessels[g].at(level));
    shares.samples[g] = part;
    shares.cost += vessels[g].cost * part;
    amount -= part;
  }
  return shares;
}

// Every level at which the cost as a function of the level may bend: the levels at which a vessel begins and
// is full, and at which the cheapest k hold all.
std::vector<double> bending_levels(const std::vector<Vessel>& vessels, const std::vector<std::size_t>& order,
                                   double amount, double least) {
  std::vector<double> levels;
  std::vector<Vessel> cheapest;
  for (const std::size_t g : order) {
    cheapest.push_back(vessels[g]);
    if (const auto level = level_of(cheapest, amount)) levels.push_back(*level);
    levels.push_back(vessels[g].start);
    levels.push_back(vessels[g].full());
  }
  std::erase_if(levels, [&](double level) { return level < least; });
  return levels;
}

absl::Status too_little_room(const DataProblem& problem) {
  std::int64_t room = 0;
  for (const ReplicaTime& replica : problem.replicas) room += std::min(replica.most_samples, problem.batch);
  return absl::ResourceExhaustedError(
      fmt::format("the replicas have memory for {} samples of a batch of {}; {} too few", room, problem.batch,
                  problem.batch - room));
}

}  // namespace

absl::StatusOr<DataShares> fill(const DataProblem& problem) {
  const std::vector<Vessel> vessels = vessels_of(problem);
  const auto amount = static_cast<double>(problem.batch);
  const auto least = level_of(vessels, amount);
  if (!least) return too_little_room(problem);
  std::vector<std::size_t> order(vessels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return vessels[a].cost < vessels[b].cost; });
  DataShares best = pour(vessels, order, *least, amount, problem.time_cost);
  if (vessels[order.front()].cost == vessels[order.back()].cost) return best;
  for (const double level : bending_levels(vessels, order, amount, *least)) {
    DataShares shares = pour(vessels, order, level, amount, problem.time_cost);
    if (shares.cost < best.cost) best = std::move(shares);
  }
  return best;
}

}  // namespace paceline::planner
