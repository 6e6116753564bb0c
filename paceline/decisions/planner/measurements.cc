#include "paceline/decisions/planner/measurements.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::planner {

namespace {
// A stage needed more than its device has, and nobody knows by how much.
constexpr double kLessMemory = 0.9;

std::int64_t micro_batch_of(const StageObservation& stage) {
  const std::int64_t micros = std::max<std::int64_t>(1, stage.micro_batches);
  return (stage.samples + micros - 1) / micros;
}

bool is_device(const Problem& problem, std::int32_t n) { return n >= 0 && n < problem.cluster.size(); }

// The time that a device of speed 1 would take for a layer of this stage.
double expected_ms(const ModelProfile& model, const Device& device, std::size_t l,
                   const StageObservation& stage) {
  const LayerProfile& layer = model.layers[l];
  const auto samples = static_cast<double>(stage.samples);
  if (!device.layer_ms.empty() || layer.measured.empty()) {
    const double each = device.layer_ms.empty() ? layer.work_ms : device.layer_ms[l];
    return each * samples + layer.fixed_ms * static_cast<double>(stage.micro_batches);
  }
  const std::int64_t u = micro_batch_of(stage);
  return layer.ms(u) * samples / static_cast<double>(u);
}
}  // namespace

Measurements::Measurements(Problem initial, bool alike)
    : initial_(std::move(initial)),
      problem_(initial_),
      slowness_(initial_.cluster.devices.size(), ClippedMean(1)),
      alike_(alike),
      learnt_(initial_.cluster.links.size()) {
  for (const Link& link : initial_.cluster.links) links_.emplace_back(link);
}

void Measurements::add_stage(const StageObservation& stage) {
  if (!is_device(problem_, stage.device) || stage.samples <= 0 || stage.begin < 0 ||
      stage.end <= stage.begin || stage.end > problem_.layers())
    return;
  const auto n = static_cast<std::size_t>(stage.device);
  const Device& before = initial_.cluster.devices[n];
  // The overhead that was measured grows with the slowness, and the one that was said does not.
  const bool is_cut = stage.end - stage.begin < problem_.layers();
  const auto micros = static_cast<double>(stage.micro_batches);
  double expected = micros * initial_.measured_overhead_ms(before, micro_batch_of(stage), is_cut);
  for (std::int32_t l = stage.begin; l < stage.end; ++l)
    expected += expected_ms(initial_.model, before, static_cast<std::size_t>(l), stage) / before.speed;
  const double measured = stage.compute_ms - micros * initial_.said_overhead_ms(before, is_cut);
  if (!(measured > 0) || !(expected > 0) || !std::isfinite(measured)) return;
  slowness_[n].add(measured / expected);
  problem_.cluster.devices[n].speed = before.speed / slowness_[n].value();
}

void Measurements::add_link(const LinkObservation& seen) {
  if (!is_device(problem_, seen.from) || !is_device(problem_, seen.to)) return;
  if (!(seen.ms > 0) || !(seen.bytes > 0) || !std::isfinite(seen.ms)) return;
  const std::size_t place = static_cast<std::size_t>(seen.from) * problem_.cluster.devices.size() +
                            static_cast<std::size_t>(seen.to);
  if (seen.shared) {
    links_[place].add_shared(seen.bytes, seen.ms);
  } else {
    links_[place].add(seen.bytes, seen.ms);
    if (alike_ && links_[place].settled()) learn_from(place);
  }
  problem_.cluster.links[place] = links_[place].link();
}

// Compares the link with its first description, because a later slowdown says nothing about other links.
void Measurements::learn_from(std::size_t link) {
  const Link& said = initial_.cluster.links[link];
  if (learnt_[link] || !std::isfinite(said.bytes_per_ms)) return;
  learnt_[link] = true;
  Shares& shares = shares_[{said.latency_ms, said.bytes_per_ms}];
  const double before = shares.mean();
  shares.sum += links_[link].link().bytes_per_ms / said.bytes_per_ms;
  shares.count += 1;
  for (std::size_t other = 0; other < links_.size(); ++other) {
    const Link& of_other = initial_.cluster.links[other];
    const bool like_it = of_other.latency_ms == said.latency_ms && of_other.bytes_per_ms == said.bytes_per_ms;
    if (!like_it || links_[other].seen()) continue;
    links_[other].scale(shares.mean() / before);
    problem_.cluster.links[other] = links_[other].link();
  }
}

void Measurements::add_sync(double ms, const Plan& plan) {
  const double expected = CostModel(initial_).forecast(plan).sync_ms;
  if (!(ms > 0) || !(expected > 0) || !std::isfinite(ms)) return;
  sync_.add(ms / expected);
  problem_.cluster.server_bytes_per_ms = initial_.cluster.server_bytes_per_ms / sync_.value();
  for (std::size_t n = 0; n < problem_.cluster.devices.size(); ++n) {
    const Link& before = initial_.cluster.devices[n].servers;
    problem_.cluster.devices[n].servers = {before.latency_ms * sync_.value(),
                                           before.bytes_per_ms / sync_.value()};
  }
}

void Measurements::add(const BatchObservation& observation, const Plan& plan) {
  for (const StageObservation& stage : observation.stages) add_stage(stage);
  for (const LinkObservation& seen : observation.links) add_link(seen);
  for (const PriceObservation& price : observation.prices) {
    if (is_device(problem_, price.device) && price.price_per_hour >= 0)
      problem_.cluster.devices[static_cast<std::size_t>(price.device)].price_per_hour = price.price_per_hour;
  }
  if (observation.sync_ms) add_sync(*observation.sync_ms, plan);
}

std::vector<std::int32_t> Measurements::apply_membership(const BatchObservation& observation) {
  std::vector<std::int32_t> changed;
  const auto set = [&](const std::vector<std::int32_t>& devices, bool present) {
    for (const std::int32_t n : devices) {
      if (!is_device(problem_, n)) continue;
      Device& device = problem_.cluster.devices[static_cast<std::size_t>(n)];
      if (std::exchange(device.present, present) != present) changed.push_back(n);
    }
  };
  set(observation.joined, true);
  set(observation.left, false);
  return changed;
}

void Measurements::limit_memory(std::int32_t device, std::int64_t bytes) {
  std::int64_t& limit = problem_.cluster.devices[static_cast<std::size_t>(device)].memory_bytes;
  limit = std::min(limit, bytes);
}

bool Measurements::lower_memory(const BatchObservation& observation, const Plan& plan) {
  bool any = false;
  for (const OutOfMemory& out : observation.out_of_memory) {
    for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
      const std::vector<std::int32_t>& devices = plan.replicas[r].devices;
      const auto place = std::find(devices.begin(), devices.end(), out.device);
      if (place == devices.end()) continue;
      Plan computed = plan;
      if (out.samples > 0) computed.replicas[r].samples = std::min(out.samples, problem_.batch);
      const Forecast forecast = CostModel(problem_).forecast(computed);
      const auto i = static_cast<std::size_t>(place - devices.begin());
      const auto needed = static_cast<double>(forecast.replicas[r].memory[i].total());
      limit_memory(out.device, static_cast<std::int64_t>(kLessMemory * needed));
      any = true;
    }
  }
  return any;
}

}  // namespace paceline::planner
