#include "paceline/formats/config/planning.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/formats/config/host_memory.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

// time until workers have taken other roles, and the next batch has begun; virtual time takes it too
constexpr double kMigrationMs = 100;

double bytes_per_ms(double gbps) { return gbps * 1e9 / 8 / 1000; }

planner::Link planned_link(const Link& link) {
  return {.latency_ms = link.latency_us / 1000, .bytes_per_ms = bytes_per_ms(link.gbps)};
}

// A link through both: the slower value of each kind.
planner::Link through(const planner::Link& one, const planner::Link& other) {
  return {.latency_ms = std::max(one.latency_ms, other.latency_ms),
          .bytes_per_ms = std::min(one.bytes_per_ms, other.bytes_per_ms)};
}

double total_ms(const planner::ModelProfile& model) {
  double total = 0;
  for (const planner::LayerProfile& layer : model.layers) total += layer.work_ms;
  return total;
}

// The same time in all, spread as the job says.
planner::ModelProfile spread_by_work(planner::ModelProfile model, const std::vector<double>& work) {
  if (work.empty()) return model;
  const double total = total_ms(model);
  const auto units = static_cast<std::int64_t>(model.layers.size());
  for (std::int64_t unit = 0; unit < units; ++unit)
    model.layers[static_cast<std::size_t>(unit)].work_ms = total * share_of_work(work, unit, unit + 1, units);
  return model;
}

double sample_ms(const JobConfig& job, const DeviceConfig& device, double measured_ms, RunTime time) {
  const auto batch = static_cast<double>(device.batch);
  if (time == RunTime::kVirtual) return virtual_ms(job, device) / batch;
  return device.pace_ms ? *device.pace_ms / batch : measured_ms * device.pace.value_or(1.0);
}

planner::Link to_servers(const JobConfig& job, const DeviceConfig& device, RunTime time) {
  if (time == RunTime::kWall)
    return job.hosts == 1 ? kToServers : through(kToServers, planned_link(device.link));
  return job.free_communication ? planner::Link{} : planned_link(device.link);
}

// The links from every device to every other.
std::vector<planner::Link> between_devices(const JobConfig& job, RunTime time) {
  std::vector<planner::Link> links;
  for (const DeviceConfig& from : job.devices) {
    for (const DeviceConfig& to : job.devices) {
      planner::Link link;
      if (time == RunTime::kWall) link = kBetweenProcesses;
      if (time == RunTime::kWall && from.host != to.host)
        link = through(link, through(planned_link(from.link), planned_link(to.link)));
      links.push_back(link);
    }
  }
  return links;
}

// Numbered as they are met; the servers' own is 0.
std::int32_t site_of(const JobConfig& job, const DeviceConfig& device) {
  std::vector<std::string> sites{""};
  for (const DeviceConfig& one : job.devices) {
    if (std::find(sites.begin(), sites.end(), one.site) == sites.end()) sites.push_back(one.site);
  }
  return static_cast<std::int32_t>(std::find(sites.begin(), sites.end(), device.site) - sites.begin());
}

planner::Device planned_device(const JobConfig& job, const DeviceConfig& one, double measured_ms,
                               RunTime time) {
  planner::Device device;
  device.name = one.name;
  device.speed = measured_ms / sample_ms(job, one, measured_ms, time);
  if (one.memory_mb) device.memory_bytes = std::llround(*one.memory_mb * 1e6);
  device.price_per_hour = one.price_per_hour;
  device.power_w = one.power_w;
  device.site = site_of(job, one);
  if (time == RunTime::kWall) device.host = one.host.value_or(0);
  device.servers = to_servers(job, one, time);
  return device;
}

// An inline table.
std::string pipeline_text(const JobConfig& job, const planner::PlannedReplica& replica) {
  std::vector<std::string> stages;
  std::vector<std::int32_t> cuts;
  for (const planner::PlannedStage& stage : planner::stages_of(replica)) {
    std::vector<std::string> names;
    for (std::size_t d = stage.first; d < stage.first + stage.width; ++d)
      names.push_back(in_quotes(job.devices[static_cast<std::size_t>(replica.devices[d])].name));
    const std::string all = absl::StrJoin(names, ",");
    stages.push_back(stage.width == 1 ? all : "[" + all + "]");
    if (stage.first > 0) cuts.push_back(stage.begin);
  }
  return fmt::format("{{devices=[{}],cuts=[{}],samples={}}}", absl::StrJoin(stages, ","),
                     fmt::join(cuts, ","), replica.samples);
}

// An inline table. Keys whose value is the default are left out, except those of every layer.
std::string layer_text(const planner::ModelProfile& model, const planner::LayerProfile& layer) {
  const auto kilobytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1000; };
  std::string text = fmt::format(
      "{{name={},work_ms={:.6g},forward_share={:.3f},output_kb={},activation_kb={},parameter_kb={}",
      in_quotes(layer.name), std::max(layer.work_ms, 1e-9), layer.forward_share,
      kilobytes(layer.output_bytes), kilobytes(layer.activation_bytes), kilobytes(layer.parameter_bytes));
  if (layer.fixed_ms > 0) text += fmt::format(",fixed_ms={:.6g}", layer.fixed_ms);
  if (!layer.measured.empty()) {
    std::vector<std::string> times;
    for (const auto& [size, ms] : layer.measured) times.push_back(fmt::format("[{},{:.6g}]", size, ms));
    text += fmt::format(",measured_ms=[{}]", absl::StrJoin(times, ","));
  }
  const auto add = [&](const char* key, std::int64_t bytes) {
    if (bytes > 0) text += fmt::format(",{}={}", key, kilobytes(bytes));
  };
  add("activation_fixed_kb", layer.activation_fixed_bytes);
  add("frozen_kb", layer.frozen_bytes);
  add("returned_kb", layer.returned_bytes);
  add("working_kb", layer.working_bytes);
  add("working_fixed_kb", layer.working_fixed_bytes);
  add("state_kb", layer.state_bytes);
  add("tied_kb", layer.tied_bytes);
  if (layer.tied_bytes > 0)
    text += fmt::format(",tied_to={}", in_quotes(model.layers[static_cast<std::size_t>(layer.tied_to)].name));
  return text + "}";
}

}  // namespace

planner::Problem planning_problem(const JobConfig& job, const planner::ModelProfile& model, RunTime time) {
  PACELINE_CHECK(!model.layers.empty(), "a model without units is planned for");
  planner::Problem problem;
  problem.model = spread_by_work(model, job.parallel.work);
  problem.batch = 0;
  for (const DeviceConfig& one : job.devices) {
    problem.batch += one.batch;
    problem.cluster.devices.push_back(planned_device(job, one, total_ms(model), time));
  }
  const bool live = time == RunTime::kWall;
  problem.cluster.links = between_devices(job, time);
  if (live) {
    problem.cluster.server_bytes_per_ms = kServersBytesPerMs;
    problem.cluster.usual_overhead_ms = kPassMs;
  } else if (!job.free_communication && job.placement == Placement::kCentral) {
    problem.cluster.server_bytes_per_ms =
        bytes_per_ms(job.server_gbps) * static_cast<double>(modelled_servers(job));
  }
  if (job.budget) problem.budgets = {job.budget->most};
  problem.micro_batches = planner::powers_of_two_up_to(std::min(problem.batch, kMostSamples));
  if (job.parallel.micro_batch) problem.micro_batches = {std::min(*job.parallel.micro_batch, problem.batch)};
  return problem;
}

std::optional<control::ReplannerOptions> replanner_options(const JobConfig& job, RunTime time) {
  const ParallelConfig& parallel = job.parallel;
  if (!parallel.by_planner() || parallel.to_be_planned || parallel.model.layers.empty()) return std::nullopt;
  return control::ReplannerOptions{.problem = planning_problem(job, parallel.model, time),
                                   .plan = parallel.plan,
                                   .plans_anew = parallel.mode == Parallel::kJoint,
                                   .migration_ms = kMigrationMs,
                                   .seed = job.seed,
                                   .v = job.budget ? job.budget->v : BudgetConfig{}.v,
                                   .queue = job.budget ? job.budget->queue : 0,
                                   .prices = job.prices};
}

std::vector<std::string> plan_settings(const JobConfig& job, const planner::ModelProfile& model,
                                       const planner::Plan& plan) {
  std::vector<std::string> pipelines;
  for (const planner::PlannedReplica& replica : plan.replicas)
    pipelines.push_back(pipeline_text(job, replica));
  return {fmt::format("pipeline=[{}]", absl::StrJoin(pipelines, ",")), layer_setting(model),
          fmt::format("micro_batch={}", plan.micro_batch)};
}

std::string layer_setting(const planner::ModelProfile& model) {
  std::vector<std::string> layers;
  for (const planner::LayerProfile& layer : model.layers) layers.push_back(layer_text(model, layer));
  return fmt::format("layer=[{}]", absl::StrJoin(layers, ","));
}

}  // namespace paceline::config
