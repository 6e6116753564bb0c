#include "paceline/simulation/sim/cluster_trace.h"

#include <cmath>
#include <set>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/cost_model.h"

namespace paceline::sim {

namespace {

enum Uneven : std::uint64_t { kJitter, kComputeNoise, kLinkNoise, kSyncNoise, kProbeNoise };

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

// Each device times one of its links in every batch, another one each time, and its own speed when it has
// nothing to do.
void ClusterTrace::probe(std::int64_t batch, const planner::CostModel& model, const planner::Plan& plan,
                         planner::BatchObservation& seen) const {
  constexpr double kBytes[] = {4e3, 256e3};
  const auto& cluster = model.problem().cluster;
  const std::int32_t size = cluster.size();
  const auto present = [&](std::int32_t n) { return cluster.devices[static_cast<std::size_t>(n)].present; };
  std::set<std::int32_t> idle;
  for (std::int32_t n = 0; n < size; ++n) {
    if (present(n)) idle.insert(n);
  }
  for (const planner::PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t n : replica.devices) idle.erase(n);
  }
  for (const std::int32_t n : idle) {
    seen.stages.push_back({n, 0, 1, 1, 1,
                           model.compute_ms(n, 0, 1, 1) *
                               uneven(file_.noise, batch, kComputeNoise, static_cast<std::uint64_t>(n))});
  }
  if (size < 2) return;
  const double bytes = kBytes[static_cast<std::size_t>(batch / (size - 1) % 2)];
  for (std::int32_t from = 0; from < size; ++from) {
    const auto to = static_cast<std::int32_t>((from + 1 + batch % (size - 1)) % size);
    if (!present(from) || !present(to)) continue;
    seen.links.push_back({from, to, bytes,
                          cluster.link(from, to).ms(bytes) *
                              uneven(file_.noise, batch, kProbeNoise, static_cast<std::uint64_t>(from))});
  }
}

// A device's work in the batch, and what came to it from each device of the stage before.
void ClusterTrace::observe(std::int64_t batch, const planner::CostModel& model, const planner::Plan& plan,
                           const planner::PlannedReplica& replica,
                           const std::vector<planner::PlannedStage>& stages, std::size_t s, std::size_t turn,
                           planner::BatchObservation& seen) const {
  const planner::PlannedStage& stage = stages[s];
  const planner::Problem& state = model.problem();
  const std::int64_t u = plan.micro_batch;
  const std::int64_t samples = samples_in_turn(replica.samples, u, turn, stage.width);
  const std::int64_t count = in_turn((replica.samples + u - 1) / u, turn, stage.width);
  if (count == 0) return;
  const std::int32_t n = replica.devices[stage.first + turn];
  const auto place = static_cast<std::uint64_t>(n);
  const double overhead = model.compute_ms(n, stage.begin, stage.end, 0);
  const double each = model.compute_ms(n, stage.begin, stage.end, 1) - overhead;
  const double ms = each * static_cast<double>(samples) + overhead * static_cast<double>(count);
  seen.stages.push_back(
      {n, stage.begin, stage.end, samples, count, ms * uneven(file_.noise, batch, kComputeNoise, place)});
  if (s == 0) return;
  const std::int64_t one = state.model.layers[static_cast<std::size_t>(stage.begin) - 1].output_bytes;
  const double bytes = static_cast<double>(u) * static_cast<double>(one);
  for (std::size_t other = 0; other < stages[s - 1].width; ++other) {
    if (!meet(turn, stage.width, other, stages[s - 1].width)) continue;
    const std::int32_t from = replica.devices[stages[s - 1].first + other];
    seen.links.push_back(
        {from, n, bytes,
         state.cluster.link(from, n).ms(bytes) * uneven(file_.noise, batch, kLinkNoise, place)});
  }
}

double ClusterTrace::run(std::int64_t batch, const planner::Plan& plan,
                         planner::BatchObservation& seen) const {
  planner::Problem state = truth_;
  for (std::size_t n = 0; n < state.cluster.devices.size(); ++n)
    state.cluster.devices[n].speed /= uneven(file_.jitter, batch, kJitter, n);
  const planner::CostModel model(state);
  for (const planner::PlannedReplica& replica : plan.replicas) {
    if (replica.samples == 0) continue;
    const std::vector<planner::PlannedStage> stages = planner::stages_of(replica, state.layers());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      for (std::size_t turn = 0; turn < stages[s].width; ++turn)
        observe(batch, model, plan, replica, stages, s, turn, seen);
    }
  }
  probe(batch, model, plan, seen);
  seen.sync_ms = model.forecast(plan).sync_ms * uneven(file_.noise, batch, kSyncNoise, 0);
  return model.exact_batch_ms(plan);
}

}  // namespace paceline::sim
