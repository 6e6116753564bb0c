#include "paceline/computing/program/units.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/records/store/crc32.h"

namespace paceline::program {

namespace {

constexpr double kFlopsPerMs = 1e8;  // 100 GFLOP/s
constexpr double kLeastWorkMs = 1e-6;

std::string why_uncut(const Model& model) { return model.uncut.empty() ? "it names no units" : model.uncut; }

}  // namespace

planner::ModelProfile profile_of(const Model& model) {
  planner::ModelProfile profile;
  for (const Unit& unit : model.units) {
    planner::LayerProfile layer;
    layer.name = unit.name;
    layer.work_ms = std::max(kLeastWorkMs, unit.flops / kFlopsPerMs);
    layer.output_bytes = unit.message_bytes;
    layer.returned_bytes = unit.extra_bytes;
    layer.activation_bytes = unit.kept_bytes;
    if (unit.weights) {
      layer.parameter_bytes = unit.weights->parameter_bytes;
      layer.frozen_bytes = unit.weights->frozen_bytes;
      layer.tied_bytes = unit.weights->tied_bytes;
      layer.tied_to = unit.weights->tied_to;
    } else {
      for (const std::int64_t tensor : unit.tensors) {
        layer.parameter_bytes += model.layout.tensors()[static_cast<std::size_t>(tensor)].size *
                                 static_cast<std::int64_t>(sizeof(float));
      }
    }
    profile.layers.push_back(layer);
  }
  return profile;
}

std::optional<engine::Engine::Cuts> cuts_of(const Model& model) {
  if (model.units.empty()) return std::nullopt;
  // A pass takes other memory on another device, and the cuts may be the same.
  std::uint32_t digest = 0;
  for (const Unit& unit : model.units) {
    const auto tensors = fmt::format("{}\n{}\n", unit.name, fmt::join(unit.tensors, " "));
    digest = store::crc32_after(tensors.data(), tensors.size(), digest);
  }
  return engine::Engine::Cuts{digest, model.libraries};
}

absl::Status check_cut(const std::string& name, const Model& model) {
  if (!model.units.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{}: the program's model cannot be cut: {}; install the same versions of PyTorch and of its "
      "libraries on every host",
      name, why_uncut(model)));
}

absl::Status check_stages(const config::JobConfig& job, const Model& model) {
  if (model.units.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("parallel: the program's model cannot be cut: {}. Or write \"data\" or \"uneven-data\"",
                    why_uncut(model)));
  }
  if (job.open_end) {
    return absl::InvalidArgumentError(
        "parallel: stages need data whose length is known, and nobody knows the length of these "
        "(data.open_end). Write "
        "\"data\" or \"uneven-data\"");
  }
  return config::check_units(job.parallel, "the program's model",
                             static_cast<std::int64_t>(model.units.size()));
}

}  // namespace paceline::program
