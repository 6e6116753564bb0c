#include "paceline/formats/config/layer_tables.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/cluster_file.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

constexpr double kMostKilobytes = 1e9;
constexpr double kMostSize = 1 << 24;

std::int64_t read_kilobytes(Section& section, const std::string& key, std::int64_t otherwise) {
  return std::llround(1000 * section.number(key, static_cast<double>(otherwise) / 1000, 0, kMostKilobytes));
}

}  // namespace

void read_layer_sizes(Section& section, planner::LayerProfile& layer) {
  layer.output_bytes = read_kilobytes(section, "output_kb", layer.output_bytes);
  // A layer keeps at least the bytes that it sends on.
  const std::int64_t kept = layer.activation_bytes > 0 ? layer.activation_bytes : layer.output_bytes;
  layer.activation_bytes = read_kilobytes(section, "activation_kb", kept);
  layer.parameter_bytes = read_kilobytes(section, "parameter_kb", layer.parameter_bytes);
  layer.forward_share = section.number("forward_share", layer.forward_share, 0.01, 0.99);
}

namespace {

// Measured times, [[size, ms], …].
planner::SizeTimes read_times(Section& section, const char* key) {
  planner::SizeTimes times;
  for (const auto& [size, ms] : section.pairs(key, kMostSize, 1e9)) {
    if (size != std::floor(size) || size < 1 ||
        (!times.empty() && size <= static_cast<double>(times.back().first)))
      section.complain(key, "write pairs of a size and milliseconds, the sizes as whole numbers that ascend");
    times.emplace_back(std::llround(size), ms);
  }
  return times;
}

std::string times_text(const planner::SizeTimes& times) {
  std::string text;
  for (const auto& [size, ms] : times)
    text += fmt::format("{}[{}, {:.6g}]", text.empty() ? "" : ", ", size, ms);
  return "[" + text + "]";
}

// The keys of a [[layer]] alone.
void read_own(Section& section, const planner::ModelProfile& before, planner::LayerProfile& layer) {
  layer.work_ms = section.number("work_ms", 1, 1e-9, 1e9);
  layer.fixed_ms = section.number("fixed_ms", 0, 0, 1e9);
  layer.measured = read_times(section, "measured_ms");
  read_layer_sizes(section, layer);
  layer.activation_fixed_bytes = read_kilobytes(section, "activation_fixed_kb", 0);
  layer.frozen_bytes = read_kilobytes(section, "frozen_kb", 0);
  if (layer.frozen_bytes > layer.parameter_bytes)
    section.complain("frozen_kb", "write at most parameter_kb, of which it is a part");
  layer.returned_bytes = read_kilobytes(section, "returned_kb", 0);
  layer.working_bytes = read_kilobytes(section, "working_kb", 0);
  layer.working_fixed_bytes = read_kilobytes(section, "working_fixed_kb", 0);
  layer.state_bytes = read_kilobytes(section, "state_kb", 0);
  layer.tied_bytes = read_kilobytes(section, "tied_kb", 0);
  if (section.has("tied_to") != section.has("tied_kb"))
    section.complain("tied_kb", "write tied_kb and tied_to together");
  const std::string owner = section.text("tied_to", "");
  if (owner.empty()) return;
  const auto found = std::find_if(before.layers.begin(), before.layers.end(),
                                  [&](const planner::LayerProfile& one) { return one.name == owner; });
  if (found == before.layers.end())
    section.complain("tied_to", fmt::format("'{}' is not the name of a layer above this one", owner));
  layer.tied_to = static_cast<std::int32_t>(found - before.layers.begin());
}

}  // namespace

void read_model_times(Section& top, planner::ModelProfile& model) {
  model.step_overhead = read_times(top, "step_overhead_ms");
  model.stage_overhead = read_times(top, "stage_overhead_ms");
  model.update_ms = top.number("update_ms", 0, 0, 1e9);
}

void read_layers(Section& top, const planner::LayerProfile& otherwise, Complaints& complaints,
                 planner::ModelProfile& model) {
  for (const toml::table* table : top.tables("layer")) {
    Section section(table, "layer", complaints);
    planner::LayerProfile layer = otherwise;
    read_own(section, model, layer);
    const std::string name = section.text("name", "layer");
    const std::int64_t count = section.integer("count", 1, 1, static_cast<std::int64_t>(kMostLayers));
    section.finish();
    for (std::int64_t i = 0; i < count; ++i) {
      if (model.layers.size() == kMostLayers)
        return section.complain("count", fmt::format("write fewer: at most {} layers in all", kMostLayers));
      layer.name = section.has("name") && count == 1 ? name : fmt::format("{}{}", name, model.layers.size());
      model.layers.push_back(layer);
    }
  }
}

absl::StatusOr<planner::ModelProfile> parse_profile(const std::string& text, const std::string& file,
                                                    const planner::LayerProfile& otherwise) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, parse_toml(text, file));
  Complaints complaints(file);
  Section top(&root, "", complaints);
  planner::ModelProfile model;
  read_model_times(top, model);
  read_layers(top, otherwise, complaints, model);
  if (model.layers.empty()) top.complain("layer", "write at least one [[layer]]");
  top.finish();
  PACELINE_RETURN_IF_ERROR(complaints.status());
  return model;
}

std::string profile_text(const planner::ModelProfile& profile) {
  const auto kilobytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1000; };
  std::string text;
  const auto add_times = [&](const char* key, const planner::SizeTimes& times) {
    if (!times.empty()) text += fmt::format("{} = {}\n", key, times_text(times));
  };
  add_times("step_overhead_ms", profile.step_overhead);
  add_times("stage_overhead_ms", profile.stage_overhead);
  if (profile.update_ms > 0) text += fmt::format("update_ms = {:.6g}\n", profile.update_ms);
  if (!text.empty()) text += '\n';
  for (const planner::LayerProfile& layer : profile.layers) {
    text += fmt::format(
        "[[layer]]\nname = {}\nwork_ms = {:.6g}\nforward_share = {:.3f}\noutput_kb = {}\nactivation_kb = {}\n"
        "parameter_kb = {}\n",
        in_quotes(layer.name), layer.work_ms, layer.forward_share, kilobytes(layer.output_bytes),
        kilobytes(layer.activation_bytes), kilobytes(layer.parameter_bytes));
    if (layer.fixed_ms > 0) text += fmt::format("fixed_ms = {:.6g}\n", layer.fixed_ms);
    if (!layer.measured.empty()) text += fmt::format("measured_ms = {}\n", times_text(layer.measured));
    if (layer.activation_fixed_bytes > 0)
      text += fmt::format("activation_fixed_kb = {}\n", kilobytes(layer.activation_fixed_bytes));
    if (layer.returned_bytes > 0) text += fmt::format("returned_kb = {}\n", kilobytes(layer.returned_bytes));
    if (layer.working_bytes > 0) text += fmt::format("working_kb = {}\n", kilobytes(layer.working_bytes));
    if (layer.working_fixed_bytes > 0)
      text += fmt::format("working_fixed_kb = {}\n", kilobytes(layer.working_fixed_bytes));
    if (layer.frozen_bytes > 0) text += fmt::format("frozen_kb = {}\n", kilobytes(layer.frozen_bytes));
    if (layer.state_bytes > 0) text += fmt::format("state_kb = {}\n", kilobytes(layer.state_bytes));
    if (layer.tied_bytes > 0) {
      const std::string& owner = profile.layers[static_cast<std::size_t>(layer.tied_to)].name;
      text += fmt::format("tied_kb = {}\ntied_to = {}\n", kilobytes(layer.tied_bytes), in_quotes(owner));
    }
    text += '\n';
  }
  return text;
}

}  // namespace paceline::config
