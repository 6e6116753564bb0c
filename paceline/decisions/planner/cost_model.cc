#include "paceline/decisions/planner/cost_model.h"

#include <algorithm>
#include <cmath>

#include <absl/strings/str_cat.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::planner {

namespace {

constexpr double kMsPerHour = 3.6e6;

std::size_t money_index() { return static_cast<std::size_t>(CostKind::kMoney); }
std::size_t energy_index() { return static_cast<std::size_t>(CostKind::kEnergy); }
std::size_t cross_site_index() { return static_cast<std::size_t>(CostKind::kCrossSite); }

std::int64_t micro_batches_of(std::int64_t samples, std::int64_t u) { return (samples + u - 1) / u; }

}  // namespace

ReplicaTime pipeline_time(const std::vector<double>& stage_ms, const std::vector<double>& link_ms,
                          const std::vector<std::size_t>& widths) {
  double all = 0, beta = 0;
  for (std::size_t i = 0; i < stage_ms.size(); ++i) {
    double run = 0;
    std::size_t devices = 0;
    for (std::size_t j = i; j < stage_ms.size(); ++j) {
      run += stage_ms[j] + (j > i ? link_ms[j - 1] : 0);
      devices += widths[j];
      beta = std::max(beta, run / static_cast<double>(devices));
    }
    if (i == 0) all = run;
  }
  return {std::max(0.0, all - beta), beta};
}

CostModel::CostModel(const Problem& problem)
    : problem_(problem), weights_(1), gradients_(1), activations_(1), fixed_(1) {
  const std::vector<LayerProfile>& layers = problem.model.layers;
  PACELINE_CHECK(!layers.empty() && !problem.micro_batches.empty(), "{} layers, {} micro-batch sizes",
                 layers.size(), problem.micro_batches.size());
  for (const LayerProfile& layer : layers) {
    if (layer.tied_bytes > 0) tied_.push_back(static_cast<std::int32_t>(weights_.size()) - 1);
    has_working_ = has_working_ || layer.working_bytes > 0 || layer.working_fixed_bytes > 0;
    weights_.push_back(weights_.back() + layer.parameter_bytes);
    gradients_.push_back(gradients_.back() + layer.parameter_bytes - layer.frozen_bytes);
    activations_.push_back(activations_.back() + layer.activation_bytes);
    fixed_.push_back(fixed_.back() + layer.activation_fixed_bytes);
  }
  sizes_ = problem.micro_batches;
  if (sizes_.front() != 1) sizes_.insert(sizes_.begin(), 1);
  for (const Device& device : problem.cluster.devices) {
    for (const std::int64_t u : sizes_) {
      per_pass_.push_back(problem.overhead_ms(device, u, false));
      per_pass_cut_.push_back(problem.overhead_ms(device, u, true));
      until_.push_back(0);
      for (std::size_t l = 0; l < layers.size(); ++l)
        until_.push_back(until_.back() + layer_ms(device, l, u) / device.speed);
    }
  }
}

// A micro-batch on a device of speed 1.
double CostModel::layer_ms(const Device& device, std::size_t layer, std::int64_t u) const {
  const LayerProfile& one = problem_.model.layers[layer];
  if (device.layer_ms.empty()) return one.ms(u);
  return one.fixed_ms + static_cast<double>(u) * device.layer_ms[layer];
}

double CostModel::other_compute_ms(std::int32_t device, std::int32_t begin, std::int32_t end,
                                   std::int64_t u) const {
  const Device& one = device_at(device);
  double sum = 0;
  for (auto l = static_cast<std::size_t>(begin); l < static_cast<std::size_t>(end); ++l)
    sum += layer_ms(one, l, u);
  return problem_.overhead_ms(one, u, is_cut(begin, end)) + sum / one.speed;
}

std::int64_t CostModel::tied_gradient_bytes(const LayerProfile& layer) const {
  return std::min(layer.tied_bytes, gradient_bytes(layer.tied_to, layer.tied_to + 1));
}

double CostModel::tied_gradient_bytes(std::int32_t begin, std::int32_t end) const {
  double bytes = 0;
  for (const std::int32_t l : tied_) {
    const LayerProfile& layer = problem_.model.layers[static_cast<std::size_t>(l)];
    if (begin <= layer.tied_to && layer.tied_to < end)
      bytes += static_cast<double>(tied_gradient_bytes(layer));
  }
  return bytes;
}

StageMemory CostModel::memory(std::int32_t begin, std::int32_t end, std::int64_t u,
                              std::int64_t in_flight) const {
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  StageMemory memory{weights_[last] - weights_[first], gradient_bytes(begin, end), 0, 0, in_flight};
  for (const std::int32_t l : tied_) {
    const LayerProfile& layer = problem_.model.layers[static_cast<std::size_t>(l)];
    if (l < begin || l >= end || layer.tied_to >= begin) continue;
    memory.weights += layer.tied_bytes;
    memory.gradients += tied_gradient_bytes(layer);
  }
  memory.activations =
      static_cast<double>(in_flight) *
      (static_cast<double>(u) * static_cast<double>(activations_[last] - activations_[first]) +
       static_cast<double>(fixed_[last] - fixed_[first]));
  if (!has_working_) return memory;
  // Measured layers keep their inputs. A stage holds its outputs too until their gradients come.
  if (last < problem_.model.layers.size())
    memory.activations +=
        static_cast<double>(in_flight) * static_cast<double>(u) * static_cast<double>(output_bytes(end));
  // During a backward pass the activations of the layers behind are free again. A stage adds up each gradient as soon as
  // it is there; a device with the whole model keeps those of a micro-batch until its pass ends.
  const bool keeps_gradients = !is_cut(begin, end) && u < problem_.batch;
  const auto samples = static_cast<double>(u);
  // A tied weight's gradient from the layer behind is there until the one that has the weight, too, adds its own.
  double came = tied_gradient_bytes(begin, end);
  for (std::size_t l = last; l-- > first;) {
    const LayerProfile& layer = problem_.model.layers[l];
    const double own =
        static_cast<double>(layer.working_fixed_bytes) + samples * static_cast<double>(layer.working_bytes);
    memory.working = std::max(memory.working, own + came);  // `own` has the layer's own gradient
    came -= tied_gradient_bytes(static_cast<std::int32_t>(l), static_cast<std::int32_t>(l) + 1);
    if (keeps_gradients) came += static_cast<double>(layer.parameter_bytes - layer.frozen_bytes);
    memory.working = std::max(memory.working, came);
    came -= samples * static_cast<double>(layer.activation_bytes) +
            static_cast<double>(layer.activation_fixed_bytes);
  }
  return memory;
}

double CostModel::transfer_ms(std::span<const std::int32_t> from, std::span<const std::int32_t> to,
                              std::int32_t cut, std::int64_t u) const {
  double most = 0;
  for_each_meeting(from.size(), to.size(), [&](std::size_t a, std::size_t b) {
    most = std::max(most, transfer_ms(from[a], to[b], cut, u));
  });
  return most;
}

double CostModel::compute_ms(std::span<const std::int32_t> devices, std::int32_t begin, std::int32_t end,
                             std::int64_t u) const {
  double most = 0;
  for (const std::int32_t n : devices) most = std::max(most, compute_ms(n, begin, end, u));
  return most;
}

void CostModel::add_device(const PlannedReplica& replica, const PlannedStage& stage, std::size_t place,
                           std::int64_t u, ReplicaTerms& terms) const {
  const std::int32_t n = replica.devices[place], first = replica.devices.front();
  const Device& device = device_at(n);
  const std::int64_t bytes = gradient_bytes(stage.begin, stage.end);
  const double turns = 1 / static_cast<double>(stage.width);
  terms.per_ms[money_index()] += device.price_per_hour / kMsPerHour;
  terms.per_sample[energy_index()] +=
      turns * device.power_w * compute_ms(n, stage.begin, stage.end, u) / static_cast<double>(u) / 1000;
  if (device.site != problem_.cluster.server_site)
    terms.fixed[cross_site_index()] += 2 * static_cast<double>(bytes);
  terms.push_ms = std::max(
      terms.push_ms,
      2 * (updates_measured() ? device.servers.latency_ms : device.servers.ms(static_cast<double>(bytes))));
  terms.pushed_bytes += bytes;
  if (device.host != device_at(first).host)
    terms.time.alpha_ms += problem_.cluster.link(n, first).ms(static_cast<double>(bytes));
  if (memory_bytes(stage.begin, stage.end, u, stage.kept) <= device.memory_bytes) return;
  // The device has no memory for the micro-batches that its stage keeps, so the replica's samples are
  // limited.
  const std::int64_t always = memory_bytes(stage.begin, stage.end, u, 0);
  const std::int64_t each = memory_bytes(stage.begin, stage.end, u, 1) - always;
  const std::int64_t room = device.memory_bytes - always;
  const auto turn = static_cast<std::int64_t>(place - stage.first),
             width = static_cast<std::int64_t>(stage.width);
  const std::int64_t most = room < 0 || each == 0 ? 0 : room / each * width + turn;
  terms.time.most_samples = std::min(terms.time.most_samples, most * u);
}

ReplicaTerms CostModel::terms(const PlannedReplica& replica, std::int64_t u) const {
  const std::vector<PlannedStage> stages = stages_of(replica, problem_.layers());
  ReplicaTerms terms;
  std::vector<double> stage_ms, link_ms;
  std::vector<std::size_t> widths;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    const auto members = devices_of(replica, stage);
    stage_ms.push_back(compute_ms(members, stage.begin, stage.end, u));
    widths.push_back(stage.width);
    for (std::size_t d = 0; d < stage.width; ++d) add_device(replica, stage, stage.first + d, u, terms);
    if (s == 0) continue;
    const auto before = devices_of(replica, stages[s - 1]);
    link_ms.push_back(transfer_ms(before, members, stage.begin, u));
    terms.per_sample[cross_site_index()] +=
        cross_site_share(before, members) *
        (2 * static_cast<double>(output_bytes(stage.begin)) +
         static_cast<double>(returned_bytes(stage.begin)) / static_cast<double>(u));
  }
  const ReplicaTime time = pipeline_time(stage_ms, link_ms, widths);
  terms.time.alpha_ms += time.alpha_ms;
  terms.time.beta_ms = time.beta_ms;
  return terms;
}

// The share of micro-batches that go from one site to another between these two stages.
double CostModel::cross_site_share(std::span<const std::int32_t> from,
                                   std::span<const std::int32_t> to) const {
  int apart = 0, all = 0;
  for_each_meeting(from.size(), to.size(), [&](std::size_t a, std::size_t b) {
    apart += device_at(from[a]).site != device_at(to[b]).site ? 1 : 0;
    ++all;
  });
  return static_cast<double>(apart) / all;
}

double CostModel::sync_ms(double slowest_push_ms, std::int64_t pushed_bytes) const {
  if (updates_measured()) {
    const auto whole = static_cast<double>(std::max<std::int64_t>(1, gradients_.back()));
    return slowest_push_ms + problem_.model.update_ms * static_cast<double>(pushed_bytes) / whole;
  }
  return std::max(slowest_push_ms,
                  2 * static_cast<double>(pushed_bytes) / problem_.cluster.server_bytes_per_ms);
}

Forecast CostModel::forecast(const Plan& plan) const {
  Forecast forecast;
  double slowest = 0, push = 0;
  std::int64_t pushed = 0;
  for (const PlannedReplica& replica : plan.replicas) {
    const ReplicaTerms known = terms(replica, plan.micro_batch);
    ReplicaForecast& one = forecast.replicas.emplace_back();
    one.alpha_ms = known.time.alpha_ms;
    one.beta_ms = known.time.beta_ms;
    one.micro_batches = micro_batches_of(replica.samples, plan.micro_batch);
    if (replica.samples > 0)
      one.time_ms = one.alpha_ms + one.beta_ms * static_cast<double>(one.micro_batches);
    const std::vector<PlannedStage> stages = stages_of(replica, problem_.layers());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const PlannedStage& stage = stages[s];
      const auto members = devices_of(replica, stage);
      for (std::size_t turn = 0; turn < stage.width; ++turn) {
        one.device_ms.push_back(compute_ms(members[turn], stage.begin, stage.end, plan.micro_batch));
        one.memory.push_back(memory(stage, turn, one.micro_batches, plan.micro_batch));
      }
      if (s > 0) {
        one.link_ms.push_back(
            transfer_ms(devices_of(replica, stages[s - 1]), members, stage.begin, plan.micro_batch));
      }
    }
    slowest = std::max(slowest, one.time_ms);
    push = std::max(push, known.push_ms);
    pushed += known.pushed_bytes;
  }
  forecast.sync_ms = sync_ms(push, pushed);
  forecast.batch_ms = slowest + forecast.sync_ms;
  forecast.costs = costs(plan, forecast.batch_ms);
  return forecast;
}

Costs CostModel::costs(const Plan& plan, double batch_ms) const {
  Costs costs{};
  for (const PlannedReplica& replica : plan.replicas) {
    const ReplicaTerms known = terms(replica, plan.micro_batch);
    for (std::size_t k = 0; k < kCostKinds; ++k) {
      costs[k] += known.fixed[k] + known.per_sample[k] * static_cast<double>(replica.samples) +
                  known.per_ms[k] * batch_ms;
    }
  }
  return costs;
}

StageMemory CostModel::memory(const PlannedStage& stage, std::size_t turn, std::int64_t micro_batches,
                              std::int64_t u) const {
  const std::int64_t kept = std::min(stage.kept, in_turn(micro_batches, turn, stage.width));
  return memory(stage.begin, stage.end, u, kept);
}

// The forward pass's part of a stage's work on a device.
double CostModel::forward_share(std::int32_t device, std::int32_t begin, std::int32_t end) const {
  double work = 0, forward = 0;
  for (std::int32_t l = begin; l < end; ++l) {
    const double ms = compute_ms(device, l, l + 1, 1);
    work += ms;
    forward += ms * problem_.model.layers[static_cast<std::size_t>(l)].forward_share;
  }
  return work > 0 ? forward / work : 1.0 / 3;
}

PipelineTimes CostModel::timeline_input(const PlannedReplica& replica, std::int64_t u) const {
  PipelineTimes times;
  const std::vector<PlannedStage> stages = stages_of(replica, problem_.layers());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    StageTimes& one = times.stages.emplace_back();
    for (const std::int32_t n : devices_of(replica, stage)) {
      const double comp = compute_ms(n, stage.begin, stage.end, u);
      one.forward_ms.push_back(comp * forward_share(n, stage.begin, stage.end));
      one.backward_ms.push_back(comp - one.forward_ms.back());
      if (s == 0) continue;
      for (const std::int32_t from : devices_of(replica, stages[s - 1]))
        one.links.push_back(problem_.cluster.link(from, n));
    }
    if (s == 0) continue;
    // The exact schedule sends as much back as there.
    one.bytes = static_cast<double>(u) * static_cast<double>(output_bytes(stage.begin)) +
                static_cast<double>(returned_bytes(stage.begin)) / 2;
  }
  return times;
}

double CostModel::exact_batch_ms(const Plan& plan) const {
  double slowest = 0;
  const std::int64_t u = plan.micro_batch;
  for (const PlannedReplica& replica : plan.replicas) {
    if (replica.samples == 0) continue;
    const std::int64_t count = micro_batches_of(replica.samples, u);
    const std::int64_t last = replica.samples - (count - 1) * u;
    slowest = std::max(slowest, pipeline_ms(timeline_input(replica, u), count,
                                            static_cast<double>(last) / static_cast<double>(u)));
  }
  return slowest + forecast(plan).sync_ms;
}

absl::Status CostModel::check(const PlannedReplica& replica, std::int64_t u, std::vector<bool>& used) const {
  const auto wrong = [](std::string what) { return absl::InvalidArgumentError(std::move(what)); };
  if (replica.devices.empty() || replica.cuts.size() + 1 != replica.devices.size() || replica.samples < 0) {
    return wrong(fmt::format("a replica has {} devices, {} cuts and {} samples", replica.devices.size(),
                             replica.cuts.size(), replica.samples));
  }
  if (!std::is_sorted(replica.cuts.begin(), replica.cuts.end()) ||
      (!replica.cuts.empty() && (replica.cuts.front() < 0 || replica.cuts.back() >= problem_.layers())))
    return wrong(fmt::format("cuts at {} of {} layers", fmt::join(replica.cuts, ", "), problem_.layers()));
  const std::vector<PlannedStage> stages = stages_of(replica, problem_.layers());
  if (stages.size() == 1 && replica.devices.size() > 1)
    return wrong("all devices of a pipeline share its one stage; each could be a replica");
  const std::int64_t count = micro_batches_of(replica.samples, u);
  for (const PlannedStage& stage : stages) {
    for (std::size_t turn = 0; turn < stage.width; ++turn) {
      const std::int32_t n = replica.devices[stage.first + turn];
      if (n < 0 || n >= problem_.cluster.size()) return wrong(fmt::format("device {} is none", n));
      const Device& device = device_at(n);
      if (!device.present) return wrong(fmt::format("{} has left", device.name));
      if (used[static_cast<std::size_t>(n)]) return wrong(fmt::format("{} is used twice", device.name));
      used[static_cast<std::size_t>(n)] = true;
      const std::int64_t bytes = memory_bytes(stage, turn, count, u);
      if (bytes <= device.memory_bytes) continue;
      return wrong(fmt::format("{} would need {:.4g} MB for layers {} to {} and has {:.4g} MB", device.name,
                               static_cast<double>(bytes) / 1e6, stage.begin, stage.end - 1,
                               static_cast<double>(device.memory_bytes) / 1e6));
    }
  }
  return absl::OkStatus();
}

absl::Status CostModel::check(const Plan& plan) const {
  std::vector<bool> used(problem_.cluster.devices.size());
  std::int64_t samples = 0;
  if (plan.micro_batch < 1 || plan.micro_batch > problem_.batch) {
    return absl::InvalidArgumentError(
        fmt::format("micro-batches of {} in a batch of {}", plan.micro_batch, problem_.batch));
  }
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    samples += plan.replicas[g].samples;
    const absl::Status status = check(plan.replicas[g], plan.micro_batch, used);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("replica ", g, ": ", status.message()));
  }
  if (samples == problem_.batch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} samples are given out of a batch of {}", samples, problem_.batch));
}

}  // namespace paceline::planner
