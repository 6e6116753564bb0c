#include "paceline/formats/config/parallel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/formats/config/layer_tables.h"

namespace paceline::config {

namespace {

// The modes' names, in the order of Parallel.
const std::vector<std::string> kModes = {"data",   "static", "uneven-data", "pipeline",  "joint",
                                         "frozen", "gpipe",  "gpipe-work",  "pipedream", "hetpipe"};

constexpr double kMostUnits = 10'000;

std::int32_t place_of(const std::string& name, const std::vector<PlanDevice>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const PlanDevice& device) { return device.name == name; });
  return found == devices.end() ? -1 : static_cast<std::int32_t>(found - devices.begin());
}

// Whether these are `count` whole numbers, each above the one before.
bool good_cuts(const std::vector<double>& cuts, std::size_t count) {
  return cuts.size() == count &&
         std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end() &&
         std::all_of(cuts.begin(), cuts.end(), [](double cut) { return cut == std::floor(cut); });
}

planner::PlannedReplica read_pipeline(Section section, const std::vector<PlanDevice>& devices) {
  planner::PlannedReplica replica;
  const std::vector<std::vector<std::string>> stages = section.groups("devices");
  std::vector<std::string> names;
  for (const auto& stage : stages) names.insert(names.end(), stage.begin(), stage.end());
  for (const std::string& name : names) {
    replica.devices.push_back(place_of(name, devices));
    if (replica.devices.back() < 0) {
      section.complain("devices", fmt::format("there is no '{}'; the job has {} to {}", name,
                                              devices.front().name, devices.back().name));
    }
  }
  if (replica.devices.empty()) section.complain("devices", "name at least one, for example [\"w0\", \"w1\"]");
  if (stages.size() == 1 && replica.devices.size() > 1) {
    section.complain("devices",
                     "these devices share the only stage; write each as a [[pipeline]] of its own, or name "
                     "devices for a second stage");
  }
  const std::vector<double> cuts = section.numbers("cuts", 1, kMostUnits);
  const bool fits = good_cuts(cuts, stages.empty() ? 0 : stages.size() - 1);
  if (!replica.devices.empty() && !fits) {
    section.complain("cuts",
                     "write the first unit of each stage but the first, in ascending order: one "
                     "number fewer than there are stages");
  }
  // One cut for each device.
  for (std::size_t s = 0; fits && s < stages.size(); ++s)
    replica.cuts.insert(replica.cuts.end(), stages[s].size(),
                        s == 0 ? 0 : static_cast<std::int32_t>(cuts[s - 1]));
  if (!replica.cuts.empty()) replica.cuts.erase(replica.cuts.begin());
  // A plan may give one replica the batches of all devices.
  replica.samples = section.integer("samples", 32, 1, kMostSamples * std::ssize(devices));
  section.finish();
  return replica;
}

void complain_unless_each_is_used_once(Section& top, const planner::Plan& plan,
                                       const std::vector<PlanDevice>& devices, bool or_not_at_all) {
  std::vector<int> uses(devices.size(), 0);
  for (const planner::PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t device : replica.devices) {
      if (device >= 0) ++uses[static_cast<std::size_t>(device)];
    }
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == 1 || (uses[i] == 0 && or_not_at_all)) continue;
    top.complain("pipeline", fmt::format("{} is in {} of them; put every [[device]] in one", devices[i].name,
                                         uses[i] == 0 ? "none" : "several"));
  }
}

// Like check_units(), with the pipeline's number or without.
absl::Status check_units_of(const ParallelConfig& parallel, const std::string& model, std::int64_t units,
                            bool numbered) {
  const auto& replicas = parallel.plan.replicas;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto& cuts = replicas[i].cuts;
    if (cuts.empty() || cuts.back() < units) continue;
    return absl::InvalidArgumentError(
        fmt::format("pipeline{}.cuts: {} is not a unit of {}, which has {}, from 0 to {}",
                    numbered ? fmt::format("[{}]", i) : "", cuts.back(), model, units, units - 1));
  }
  const std::size_t layers = parallel.model.layers.size();
  if (layers != 0 && static_cast<std::int64_t>(layers) != units) {
    return absl::InvalidArgumentError(
        fmt::format("layer: there are {} of them, but {} has {} units", layers, model, units));
  }
  if (parallel.work.empty() || static_cast<std::int64_t>(parallel.work.size()) == units)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("work: lists {} units, but {} has {}", parallel.work.size(), model, units));
}

}  // namespace

std::string to_string(Parallel mode) { return kModes[static_cast<std::size_t>(mode)]; }

bool ParallelConfig::pipelined() const {
  return std::any_of(plan.replicas.begin(), plan.replicas.end(),
                     [](const planner::PlannedReplica& replica) { return replica.devices.size() > 1; });
}

ParallelConfig read_parallel(Section& top, const std::vector<PlanDevice>& devices, Complaints& complaints) {
  ParallelConfig config;
  config.mode = static_cast<Parallel>(top.choice("parallel", 0, kModes));
  const auto pipelines = top.tables("pipeline");
  config.to_be_planned = config.by_planner() && pipelines.empty();
  if (config.by_planner() && devices.size() > kMostPlannedDevices) {
    top.complain("parallel", fmt::format("plans are made for at most {} devices, and this job has {}",
                                         kMostPlannedDevices, devices.size()));
  }
  if (config.of_stages() && !config.to_be_planned) {
    for (const toml::table* table : pipelines)
      config.plan.replicas.push_back(read_pipeline({table, "pipeline", complaints}, devices));
    complain_unless_each_is_used_once(top, config.plan, devices, config.by_planner());
  } else {
    if (!pipelines.empty())
      top.complain("pipeline", "is for parallel = \"static\" and what the planner plans");
    for (std::size_t i = 0; i < devices.size(); ++i)
      config.plan.replicas.push_back({{static_cast<std::int32_t>(i)}, {}, devices[i].batch});
  }
  config.plan.micro_batch = top.integer("micro_batch", kMostSamples, 1, kMostSamples);
  if (top.has("micro_batch")) config.micro_batch = config.plan.micro_batch;
  if (config.pipelined() && !config.micro_batch)
    top.complain("micro_batch", "write how many samples a stage computes at a time, for example 8");
  config.work = top.numbers("work", 1e-9, 1e18);
  read_layers(top, {}, complaints, config.model);
  for (const char* key : {"step_overhead_ms", "stage_overhead_ms"})
    top.refuse(key, "leave it out: a job takes only the [[layer]] of a profile");
  if (config.mode == Parallel::kJoint && !config.to_be_planned && config.model.layers.empty())
    top.complain("pipeline",
                 "leave it out: joint makes the plan. To begin with this one, write [[layer]] too");
  if (config.work.empty()) {
    for (const planner::LayerProfile& layer : config.model.layers) config.work.push_back(layer.work_ms);
  }
  if (!config.model.layers.empty()) {
    const auto fits =
        check_units_of(config, "[[layer]]", static_cast<std::int64_t>(config.model.layers.size()), false);
    if (!fits.ok()) top.complain("layer", std::string(fits.message()));
  }
  return config;
}

absl::Status check_units(const ParallelConfig& parallel, const std::string& model, std::int64_t units) {
  return check_units_of(parallel, model, units, true);
}

double share_of_work(const std::vector<double>& work, std::int64_t begin, std::int64_t end,
                     std::int64_t units) {
  PACELINE_CHECK(0 <= begin && begin <= end && end <= units, "units {} to {} of {}", begin, end, units);
  if (work.empty()) return static_cast<double>(end - begin) / static_cast<double>(units);
  PACELINE_CHECK(work.size() == static_cast<std::size_t>(units), "the work of {} units out of {}",
                 work.size(), units);
  return std::accumulate(work.begin() + begin, work.begin() + end, 0.0) /
         std::accumulate(work.begin(), work.end(), 0.0);
}

}  // namespace paceline::config
