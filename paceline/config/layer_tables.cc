#include "paceline/config/layer_tables.h"

#include <cmath>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/config/cluster_file.h"
#include "paceline/config/toml_text.h"

namespace paceline::config {

namespace {

constexpr double kMostKilobytes = 1e9;

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

void read_layers(Section& top, const planner::LayerProfile& otherwise, Complaints& complaints,
                 planner::ModelProfile& model) {
  for (const toml::table* table : top.tables("layer")) {
    Section section(table, "layer", complaints);
    planner::LayerProfile layer = otherwise;
    layer.work_ms = section.number("work_ms", 1, 1e-9, 1e9);
    read_layer_sizes(section, layer);
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
  read_layers(top, otherwise, complaints, model);
  if (model.layers.empty()) top.complain("layer", "write at least one [[layer]]");
  top.finish();
  PACELINE_RETURN_IF_ERROR(complaints.status());
  return model;
}

std::string profile_text(const planner::ModelProfile& profile) {
  const auto kilobytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1000; };
  std::string text;
  for (const planner::LayerProfile& layer : profile.layers) {
    text += fmt::format(
        "[[layer]]\nname = \"{}\"\nwork_ms = {:.6g}\nforward_share = {:.3f}\noutput_kb = {}\nactivation_kb = "
        "{}\n"
        "parameter_kb = {}\n\n",
        layer.name, layer.work_ms, layer.forward_share, kilobytes(layer.output_bytes),
        kilobytes(layer.activation_bytes), kilobytes(layer.parameter_bytes));
  }
  return text;
}

}  // namespace paceline::config
