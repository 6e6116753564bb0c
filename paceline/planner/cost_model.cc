#include "paceline/planner/cost_model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

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

ReplicaTime pipeline_time(const std::vector<double>& stage_ms, const std::vector<double>& link_ms) {
  double all = 0, beta = 0;
  for (std::size_t i = 0; i < stage_ms.size(); ++i) {
    double run = 0;
    for (std::size_t j = i; j < stage_ms.size(); ++j) {
      run += stage_ms[j] + (j > i ? link_ms[j - 1] : 0);
      beta = std::max(beta, run / static_cast<double>(j - i + 1));
    }
    if (i == 0) all = run;
  }
  return {std::max(0.0, all - beta), beta};
}

CostModel::CostModel(const Problem& problem) : problem_(problem), weights_(1), activations_(1) {
  const std::vector<LayerProfile>& layers = problem.model.layers;
  PACELINE_CHECK(!layers.empty() && !problem.micro_batches.empty(), "{} layers, {} micro-batch sizes",
                 layers.size(), problem.micro_batches.size());
  for (const LayerProfile& layer : layers) {
    weights_.push_back(weights_.back() + layer.parameter_bytes);
    activations_.push_back(activations_.back() + layer.activation_bytes);
  }
  for (const Device& device : problem.cluster.devices) {
    work_.push_back(0);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const double ms = device.layer_ms.empty() ? layers[l].work_ms : device.layer_ms[l];
      work_.push_back(work_.back() + ms / device.speed);
    }
  }
}

ReplicaTerms CostModel::terms(const PlannedReplica& replica, std::int64_t u) const {
  const std::int32_t layers = problem_.layers();
  const auto stages = replica.devices.size();
  const auto samples = static_cast<double>(u);
  ReplicaTerms terms;
  std::vector<double> stage_ms(stages), link_ms(stages - 1);
  double gradients_ms = 0;  // of other hosts, to the first stage's
  std::int64_t most_micro_batches = ReplicaTime::kNoCap;
  for (std::size_t s = 0; s < stages; ++s) {
    const std::int32_t n = replica.devices[s], begin = replica.begin(s), end = replica.end(s, layers);
    const Device& device = problem_.cluster.devices[static_cast<std::size_t>(n)];
    const std::int64_t bytes = weight_bytes(begin, end);
    stage_ms[s] = compute_ms(n, begin, end, u);
    terms.per_ms[money_index()] += device.price_per_hour / kMsPerHour;
    terms.per_sample[energy_index()] += device.power_w * stage_ms[s] / samples / 1000;
    if (device.site != problem_.cluster.server_site)
      terms.fixed[cross_site_index()] += 2 * static_cast<double>(bytes);
    terms.push_ms = std::max(terms.push_ms, 2 * device.servers.ms(static_cast<double>(bytes)));
    const auto in_flight = static_cast<std::int64_t>(stages - s);
    if (memory_bytes(begin, end, u, in_flight) > device.memory_bytes) {
      const std::int64_t each = memory_bytes(begin, end, u, 1) - 2 * bytes;
      const std::int64_t room = std::max<std::int64_t>(0, device.memory_bytes - 2 * bytes);
      most_micro_batches = std::min(most_micro_batches, each > 0 ? room / each : 0);
    }
    if (s == 0) continue;
    const std::int32_t before = replica.devices[s - 1], first = replica.devices.front();
    if (device.host != problem_.cluster.devices[static_cast<std::size_t>(first)].host)
      gradients_ms += problem_.cluster.link(n, first).ms(static_cast<double>(bytes));
    link_ms[s - 1] = transfer_ms(before, n, begin, u);
    if (problem_.cluster.devices[static_cast<std::size_t>(before)].site != device.site) {
      terms.per_sample[cross_site_index()] +=
          2 * static_cast<double>(problem_.model.layers[static_cast<std::size_t>(begin) - 1].output_bytes);
    }
  }
  terms.pushed_bytes = weight_bytes(0, layers);
  terms.time = pipeline_time(stage_ms, link_ms);
  terms.time.alpha_ms += gradients_ms;
  if (most_micro_batches < ReplicaTime::kNoCap) terms.time.most_samples = most_micro_batches * u;
  return terms;
}

double CostModel::sync_ms(double slowest_push_ms, std::int64_t pushed_bytes) const {
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
    for (std::size_t s = 0; s < replica.devices.size(); ++s) {
      const std::int32_t begin = replica.begin(s), end = replica.end(s, problem_.layers());
      one.stage_ms.push_back(compute_ms(replica.devices[s], begin, end, plan.micro_batch));
      const auto deepest = static_cast<std::int64_t>(replica.devices.size() - s);
      one.memory_bytes.push_back(
          memory_bytes(begin, end, plan.micro_batch, std::min(deepest, one.micro_batches)));
      if (s > 0) {
        one.link_ms.push_back(
            transfer_ms(replica.devices[s - 1], replica.devices[s], begin, plan.micro_batch));
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

PipelineTimes CostModel::timeline_input(const PlannedReplica& replica, std::int64_t u) const {
  PipelineTimes times;
  for (std::size_t s = 0; s < replica.devices.size(); ++s) {
    const std::int32_t n = replica.devices[s], begin = replica.begin(s),
                       end = replica.end(s, problem_.layers());
    double work = 0, forward = 0;
    for (std::int32_t l = begin; l < end; ++l) {
      const LayerProfile& layer = problem_.model.layers[static_cast<std::size_t>(l)];
      const double ms = compute_ms(n, l, l + 1, 1);
      work += ms;
      forward += ms * layer.forward_share;
    }
    const double comp = compute_ms(n, begin, end, u);
    times.forward_ms.push_back(work > 0 ? comp * forward / work : comp / 3);
    times.backward_ms.push_back(comp - times.forward_ms.back());
    if (s == 0) continue;
    times.links.push_back(problem_.cluster.link(replica.devices[s - 1], n));
    times.bytes.push_back(
        static_cast<double>(u) *
        static_cast<double>(problem_.model.layers[static_cast<std::size_t>(begin) - 1].output_bytes));
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

absl::Status CostModel::check(const Plan& plan) const {
  const auto wrong = [](std::string what) { return absl::InvalidArgumentError(std::move(what)); };
  std::vector<bool> used(problem_.cluster.devices.size());
  std::int64_t samples = 0;
  if (plan.micro_batch < 1 || plan.micro_batch > problem_.batch)
    return wrong(fmt::format("micro-batches of {} in a batch of {}", plan.micro_batch, problem_.batch));
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    const PlannedReplica& replica = plan.replicas[g];
    samples += replica.samples;
    if (replica.devices.empty() || replica.cuts.size() + 1 != replica.devices.size() || replica.samples < 0)
      return wrong(fmt::format("replica {} has {} devices, {} cuts and {} samples", g, replica.devices.size(),
                               replica.cuts.size(), replica.samples));
    const std::int64_t count = micro_batches_of(replica.samples, plan.micro_batch);
    for (std::size_t s = 0; s < replica.devices.size(); ++s) {
      const std::int32_t n = replica.devices[s], begin = replica.begin(s),
                         end = replica.end(s, problem_.layers());
      if (n < 0 || n >= problem_.cluster.size())
        return wrong(fmt::format("replica {} is on device {}, which is none", g, n));
      const Device& device = problem_.cluster.devices[static_cast<std::size_t>(n)];
      if (!device.present) return wrong(fmt::format("replica {} is on {}, which has left", g, device.name));
      if (used[static_cast<std::size_t>(n)]) return wrong(fmt::format("{} is used twice", device.name));
      used[static_cast<std::size_t>(n)] = true;
      if (begin >= end || begin < 0 || end > problem_.layers())
        return wrong(
            fmt::format("{} is to run layers {} to {} of {}", device.name, begin, end, problem_.layers()));
      const std::int64_t deepest = static_cast<std::int64_t>(replica.devices.size() - s);
      const std::int64_t bytes = memory_bytes(begin, end, plan.micro_batch, std::min(deepest, count));
      if (bytes > device.memory_bytes)
        return wrong(fmt::format("{} would need {:.4g} MB for layers {} to {} and has {:.4g} MB", device.name,
                                 static_cast<double>(bytes) / 1e6, begin, end - 1,
                                 static_cast<double>(device.memory_bytes) / 1e6));
    }
  }
  if (samples == problem_.batch) return absl::OkStatus();
  return wrong(fmt::format("{} samples are given out of a batch of {}", samples, problem_.batch));
}

}  // namespace paceline::planner
