#include "paceline/sim/cluster_trace.h"

#include <cmath>
#include <set>

#include "paceline/base/rng.h"
#include "paceline/planner/cost_model.h"

namespace paceline::sim {

namespace {

enum Uneven : std::uint64_t { kJitter, kComputeNoise, kLinkNoise, kSyncNoise };

}  // namespace

planner::Problem initial_problem(const config::ClusterFile& file) {
  planner::Problem problem = file.problem;
  std::set<std::int32_t> met;
  for (const config::ClusterChange& change : file.changes) {
    const bool membership =
        change.what == config::ClusterEvent::kJoin || change.what == config::ClusterEvent::kLeave;
    if (!membership || !met.insert(change.device).second) continue;
    problem.cluster.devices[static_cast<std::size_t>(change.device)].present =
        change.what == config::ClusterEvent::kLeave;
  }
  return problem;
}

ClusterTrace::ClusterTrace(const config::ClusterFile& file) : file_(file), truth_(initial_problem(file)) {}

void ClusterTrace::apply(const config::ClusterChange& change, planner::BatchObservation& seen) {
  planner::Device& device = truth_.cluster.devices[static_cast<std::size_t>(change.device)];
  switch (change.what) {
    case config::ClusterEvent::kSpeed:
      device.speed = change.speed;
      return;
    case config::ClusterEvent::kLink:
      truth_.cluster.link(change.device, change.other) = truth_.cluster.link(change.other, change.device) =
          change.link;
      return;
    case config::ClusterEvent::kPrice:
      device.price_per_hour = change.price_per_hour;
      return;
    case config::ClusterEvent::kJoin:
      device.present = true;
      return seen.joined.push_back(change.device);
    case config::ClusterEvent::kLeave:
      device.present = false;
      return seen.left.push_back(change.device);
  }
}

void ClusterTrace::advance(double now_ms, planner::BatchObservation& seen) {
  for (; next_ < file_.changes.size() && file_.changes[next_].at_s * 1000 <= now_ms; ++next_)
    apply(file_.changes[next_], seen);
  for (std::int32_t n = 0; n < truth_.cluster.size(); ++n)
    seen.prices.push_back({n, truth_.cluster.devices[static_cast<std::size_t>(n)].price_per_hour});
}

double ClusterTrace::uneven(double spread, std::int64_t batch, std::uint64_t what,
                            std::uint64_t place) const {
  if (spread == 0) return 1;
  Rng rng(mix_seed({file_.seed, what, static_cast<std::uint64_t>(batch), place}));
  const double sigma = std::sqrt(std::log1p(spread * spread));
  return std::exp(sigma * rng.normal() - sigma * sigma / 2);
}

double ClusterTrace::run(std::int64_t batch, const planner::Plan& plan,
                         planner::BatchObservation& seen) const {
  planner::Problem state = truth_;
  for (std::size_t n = 0; n < state.cluster.devices.size(); ++n)
    state.cluster.devices[n].speed /= uneven(file_.jitter, batch, kJitter, n);
  const planner::CostModel model(state);
  for (const planner::PlannedReplica& replica : plan.replicas) {
    const std::int64_t count = (replica.samples + plan.micro_batch - 1) / plan.micro_batch;
    for (std::size_t s = 0; s < replica.devices.size() && replica.samples > 0; ++s) {
      const std::int32_t n = replica.devices[s], begin = replica.begin(s),
                         end = replica.end(s, state.layers());
      const auto place = static_cast<std::uint64_t>(n);
      const double overhead = state.cluster.devices[static_cast<std::size_t>(n)].overhead_ms;
      const double each = model.compute_ms(n, begin, end, 1) - overhead;
      const double ms = each * static_cast<double>(replica.samples) + overhead * static_cast<double>(count);
      seen.stages.push_back(
          {n, begin, end, replica.samples, count, ms * uneven(file_.noise, batch, kComputeNoise, place)});
      if (s == 0) continue;
      const std::int32_t from = replica.devices[s - 1];
      const std::int64_t one = state.model.layers[static_cast<std::size_t>(begin) - 1].output_bytes;
      const double bytes = static_cast<double>(plan.micro_batch) * static_cast<double>(one);
      seen.links.push_back(
          {from, n, bytes,
           state.cluster.link(from, n).ms(bytes) * uneven(file_.noise, batch, kLinkNoise, place)});
    }
  }
  seen.sync_ms = model.forecast(plan).sync_ms * uneven(file_.noise, batch, kSyncNoise, 0);
  return model.exact_batch_ms(plan);
}

}  // namespace paceline::sim
