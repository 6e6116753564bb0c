#include "paceline/records/pages/plan_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"

namespace paceline::report {

namespace {

using planner::Planned;
using planner::PlannedReplica;
using planner::Problem;
using planner::ReplicaForecast;

constexpr double kMegabyte = 1e6;
constexpr std::int32_t kBarColumns = 40;

const planner::Device& device_of(const Problem& problem, std::int32_t n) {
  return problem.cluster.devices[static_cast<std::size_t>(n)];
}

// A bar with the place of the layers in the model: a column for each layer, or for several if there are many.
std::string layers_bar(std::int32_t begin, std::int32_t end, std::int32_t layers) {
  const std::int32_t width = std::min(layers, kBarColumns);
  std::string text;
  for (std::int32_t column = 0; column < width; ++column) {
    // The layers that the column stands for.
    const std::int32_t first = column * layers / width, last = (column + 1) * layers / width;
    text += begin < last && first < end ? '#' : '.';
  }
  return text;
}

// The speeds that a plan takes for a host's memory, because nobody has measured them.
std::string host_text(const planner::Cluster& cluster) {
  if (!cluster.on_one_host) return "";
  const planner::Link& servers = cluster.devices.front().servers;
  const auto speed = [](const planner::Link& link) {
    return fmt::format("{:.3g} ms and {:.3g} GB/s", link.latency_ms, link.bytes_per_ms / 1e6);
  };
  std::string text =
      "all devices are on one host: its memory moves gradients and weights with " + speed(servers);
  if (cluster.size() > 1) text += ", activations with " + speed(cluster.link(0, 1));
  return text + "\n";
}

std::string memory_text(const planner::Device& device, std::int64_t bytes) {
  const double need = static_cast<double>(bytes) / kMegabyte;
  if (device.memory_bytes == planner::Device::kNoLimit) return fmt::format("{:.4g} MB", need);
  return fmt::format("{:.4g} of {:.4g} MB", need, static_cast<double>(device.memory_bytes) / kMegabyte);
}

std::string layers_text(std::int32_t begin, std::int32_t end) {
  return end - begin == 1 ? fmt::format("layer {}", begin) : fmt::format("layers {}–{}", begin, end - 1);
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, columns(text)), ' ');
}

// Devices that share a stage compute its micro-batches in turn.
std::string nth(std::size_t width) {
  return width == 2 ? "second" : width == 3 ? "third" : fmt::format("{}th", width);
}

void add_replica(const Problem& problem, const PlannedReplica& replica, const ReplicaForecast& forecast,
                 std::size_t index, std::string& text) {
  std::size_t widest = 0;
  for (const std::int32_t n : replica.devices)
    widest = std::max(widest, columns(printable(device_of(problem, n).name)));
  text += fmt::format("replica {}: {} samples in {} micro-batches, {:.4g} ms\n", index, replica.samples,
                      forecast.micro_batches, forecast.time_ms);
  const std::vector<planner::PlannedStage> stages = planner::stages_of(replica, problem.layers());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const planner::PlannedStage& stage = stages[s];
    if (s > 0) text += fmt::format("  {}  ↓ {:.4g} ms\n", std::string(widest, ' '), forecast.link_ms[s - 1]);
    for (std::size_t d = stage.first; d < stage.first + stage.width; ++d) {
      const planner::Device& device = device_of(problem, replica.devices[d]);
      text += fmt::format("  {}  {}  {}  {:.4g} ms  {}{}\n", padded(printable(device.name), widest),
                          layers_bar(stage.begin, stage.end, problem.layers()),
                          padded(layers_text(stage.begin, stage.end), 14), forecast.device_ms[d],
                          memory_text(device, forecast.memory[d].total()),
                          stage.width > 1 ? fmt::format("  every {} micro-batch", nth(stage.width)) : "");
    }
  }
}

double samples_a_second(const Problem& problem, const Planned& planned) {
  return 1000 * static_cast<double>(problem.batch) / planned.forecast.batch_ms;
}

std::string memory_table(const Problem& problem, const Planned& planned) {
  TextTable table(
      {"memory, MB", "weights", "gradients", "activations", "working", "micro-batches", "in all", "has"},
      TextTable::LastColumn::kNumbers);
  const auto megabytes = [](double bytes) { return fmt::format("{:.4g}", bytes / kMegabyte); };
  for (std::size_t g = 0; g < planned.found.plan.replicas.size(); ++g) {
    const PlannedReplica& replica = planned.found.plan.replicas[g];
    for (std::size_t d = 0; d < replica.devices.size(); ++d) {
      const planner::Device& device = device_of(problem, replica.devices[d]);
      const planner::StageMemory& memory = planned.forecast.replicas[g].memory[d];
      const bool limited = device.memory_bytes != planner::Device::kNoLimit;
      table.add({printable(device.name), megabytes(static_cast<double>(memory.weights)),
                 megabytes(static_cast<double>(memory.gradients)), megabytes(memory.activations),
                 megabytes(memory.working), fmt::format("{}", memory.in_flight),
                 megabytes(static_cast<double>(memory.total())),
                 limited ? megabytes(static_cast<double>(device.memory_bytes)) : kUnknownCell});
    }
  }
  return table.text();
}

// The servers' memory, if the profile says how large the optimizer's state is.
std::string servers_text(const Problem& problem) {
  double weights = 0, state = 0;
  for (const planner::LayerProfile& layer : problem.model.layers) {
    weights += static_cast<double>(layer.parameter_bytes);
    state += static_cast<double>(layer.state_bytes);
  }
  if (state == 0) return "";
  return fmt::format("the servers hold {:.4g} MB of weights and {:.4g} MB of the optimizer's state\n",
                     weights / kMegabyte, state / kMegabyte);
}

std::string second_text(const Problem& problem, const std::optional<planner::SecondBest>& second) {
  if (!second) return "";
  return fmt::format("second best: {}\n  {}\n\n",
                     printable(planner::in_words(problem, second->plan, second->evaluation.batch_ms)),
                     printable(second->reason));
}

Json memory_json(const ReplicaForecast& forecast, double (*part)(const planner::StageMemory&)) {
  Json megabytes = Json::array();
  for (const planner::StageMemory& one : forecast.memory) megabytes.push_back(part(one) / kMegabyte);
  return megabytes;
}

Json second_json(const Problem& problem, const std::optional<planner::SecondBest>& second) {
  if (!second) return nullptr;
  return {{"plan", planner::in_words(problem, second->plan, second->evaluation.batch_ms)},
          {"batch_ms", second->evaluation.batch_ms},
          {"reason", second->reason}};
}

std::string baseline_table(const Planned& planned) {
  TextTable table({"", "batch ms", "ours is faster by", ""}, TextTable::LastColumn::kWords);
  table.add({"this plan", fmt::format("{:.4g}", planned.forecast.batch_ms), "", ""});
  for (const planner::BaselineResult& one : planned.baselines) {
    if (!one.evaluation.possible()) {
      table.add({one.name, "–", "–", printable(std::string(one.plan.status().message()))});
      continue;
    }
    table.add({one.name, fmt::format("{:.4g}", one.evaluation.batch_ms),
               fmt::format("{:.2f} ×", one.evaluation.batch_ms / planned.forecast.batch_ms),
               one.evaluation.over > 0 ? "over a budget" : ""});
  }
  return table.text();
}

}  // namespace

std::string plan_text(const Problem& problem, const Planned& planned,
                      const std::optional<planner::SecondBest>& second) {
  const planner::Plan& plan = planned.found.plan;
  const planner::Forecast& forecast = planned.forecast;
  std::string text = fmt::format(
      "{}\n\na batch of {} in micro-batches of {}: {:.4g} ms, {:.4g} of them synchronizing; {} samples/s\n\n",
      printable(planned.reason), problem.batch, plan.micro_batch, forecast.batch_ms, forecast.sync_ms,
      rate_text(samples_a_second(problem, planned)));
  for (std::size_t g = 0; g < plan.replicas.size(); ++g)
    add_replica(problem, plan.replicas[g], forecast.replicas[g], g, text);
  const std::vector<std::int32_t> unused = planner::unused_devices(problem, plan);
  if (!unused.empty())
    text += "not used: " + printable(planner::names_of(problem, {unused, {}, 0}, ", ")) + "\n";
  text += host_text(problem.cluster) + "\n" + memory_table(problem, planned) + servers_text(problem);
  const auto cost = [&](planner::CostKind kind) { return forecast.costs[static_cast<std::size_t>(kind)]; };
  text += fmt::format("\na batch costs {:.4g} in money, {:.4g} J, {:.4g} MB between sites\n\n",
                      cost(planner::CostKind::kMoney), cost(planner::CostKind::kEnergy),
                      cost(planner::CostKind::kCrossSite) / kMegabyte);
  return text + second_text(problem, second) + baseline_table(planned);
}

Json costs_json(const planner::Costs& costs) {
  const auto cost = [&](planner::CostKind kind) { return costs[static_cast<std::size_t>(kind)]; };
  return {{"money", cost(planner::CostKind::kMoney)},
          {"energy_j", cost(planner::CostKind::kEnergy)},
          {"cross_site_mb", cost(planner::CostKind::kCrossSite) / kMegabyte}};
}

Json plan_json(const Problem& problem, const Planned& planned,
               const std::optional<planner::SecondBest>& second, double millis) {
  Json replicas = Json::array();
  for (std::size_t g = 0; g < planned.found.plan.replicas.size(); ++g) {
    const PlannedReplica& replica = planned.found.plan.replicas[g];
    const ReplicaForecast& forecast = planned.forecast.replicas[g];
    Json devices = Json::array();
    for (const std::int32_t n : replica.devices) devices.push_back(device_of(problem, n).name);
    replicas.push_back(
        {{"devices", std::move(devices)},
         {"cuts", replica.cuts},
         {"samples", replica.samples},
         {"stage_ms", forecast.device_ms},
         {"link_ms", forecast.link_ms},
         {"memory_mb",
          memory_json(forecast,
                      [](const planner::StageMemory& one) { return static_cast<double>(one.total()); })},
         {"weights_mb",
          memory_json(forecast,
                      [](const planner::StageMemory& one) { return static_cast<double>(one.weights); })},
         {"gradients_mb",
          memory_json(forecast,
                      [](const planner::StageMemory& one) { return static_cast<double>(one.gradients); })},
         {"activations_mb",
          memory_json(forecast, [](const planner::StageMemory& one) { return one.activations; })},
         {"working_mb", memory_json(forecast, [](const planner::StageMemory& one) { return one.working; })}});
  }
  Json baselines = Json::object();
  for (const planner::BaselineResult& one : planned.baselines)
    baselines[one.name] = json_number(one.evaluation.batch_ms);
  return {
      {"batch_ms", planned.forecast.batch_ms},
      {"samples_per_s", samples_a_second(problem, planned)},
      {"second", second_json(problem, second)},
      {"micro_batch", planned.found.plan.micro_batch},
      {"replicas", std::move(replicas)},
      {"costs", costs_json(planned.forecast.costs)},
      {"baselines", std::move(baselines)},
      {"search", {{"moves", planned.found.moves}, {"accepted", planned.found.accepted}, {"millis", millis}}},
      {"reason", planned.reason}};
}

}  // namespace paceline::report
