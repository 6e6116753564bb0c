#include "paceline/tools/cli/export_command.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/ps/convert.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/tools/cli/export_run.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/torch_program.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

// The names of PEFT's two files of an adapter.
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kAdapterConfig = "adapter_config.json";

struct Exported {
  ps::Layout layout;
  std::vector<engine::FrozenTensor> frozen;
  std::vector<std::pair<std::string, std::string>> aliases;
  std::vector<std::pair<std::string, std::string>> trained_names;
  std::string adapter_config;
};

using Names = std::vector<std::pair<std::string, std::string>>;

// The model, from the run's program or from the built-in models.
absl::StatusOr<Exported> model_of(const store::RunPaths& paths) {
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_recorded_job(paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, paths.job()));
  if (job.program) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text,
                              store::read_file(paths.program(), program::kLongestLine));
    auto answer = program::parse_answer(text);
    if (!answer.ok() || !std::holds_alternative<program::Model>(*answer))
      return absl::DataLossError(
          fmt::format("{}: is not what a program says of itself", paths.program().string()));
    auto& model = std::get<program::Model>(*answer);
    return Exported{std::move(model.layout), std::move(model.frozen), std::move(model.aliases),
                    std::move(model.trained_names), std::move(model.adapter_config)};
  }
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(const auto engines,
                            engine::built_in()->make(job, engine::BuiltIn::Use::kTrain, 1, 1));
  return Exported{engines.front()->layout(), {}, {}, {}, {}};
}

// The ending says the format; this one is read everywhere.
absl::Status check_ending(const std::string& file) {
  if (file.empty() || file.ends_with(".safetensors")) return absl::OkStatus();
  if (file.ends_with(".csv")) {
    return absl::InvalidArgumentError(fmt::format(
        "export: {}: this would be the weights; write --csv FOLDER for tables of numbers, or name "
        "a file that ends in .safetensors for the weights",
        file));
  }
  return absl::InvalidArgumentError(
      fmt::format("export: {}: weights are written as safetensors; name a file that ends in .safetensors, or "
                  "write --trace, --csv, --tensorboard or --prometheus for the history",
                  file));
}

// Readers map the weights, which only a regular file lets them.
absl::Status check_target(const fs::path& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is {}, not a regular file; name a file that is new, or one to replace",
                    file.string(), fs::is_directory(status) ? "a folder" : "a device or a pipe"));
  }
  return check_output(file.string());
}

// The values that the program had when the run began.
absl::StatusOr<std::vector<store::Tensor>> frozen_of(const Exported& model, const store::RunPaths& paths) {
  if (model.frozen.empty()) return std::vector<store::Tensor>{};
  const auto advice = [&](const std::string& why) {
    return fmt::format(
        "{}: {} for the tensors that nobody trained, such as '{}'; `paceline export RUN FILE --trainable` "
        "writes what was trained",
        paths.frozen().string(), why, model.frozen.front().name);
  };
  std::error_code ignored;
  if (!fs::exists(paths.frozen(), ignored)) {
    return absl::NotFoundError(
        advice("is not there (the run is too young, its job has checkpoint.frozen = false, or the file is on "
               "the disk of the host that led the run first)"));
  }
  PACELINE_ASSIGN_OR_RETURN(store::SafetensorsFile file, store::read_safetensors(paths.frozen()));
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) places[file.tensors[i].name] = i;
  std::vector<store::Tensor> tensors;
  for (const engine::FrozenTensor& one : model.frozen) {
    const auto found = places.find(one.name);
    if (found == places.end() || file.tensors[found->second].shape != one.shape ||
        file.tensors[found->second].dtype != one.dtype)
      return absl::DataLossError(advice(fmt::format("has another '{}' than the model", one.name)));
    tensors.push_back(std::move(file.tensors[found->second]));
  }
  return tensors;
}

// `frozen`: the values of tensors that are not in the layout. `aliases`: further names.
absl::StatusOr<std::size_t> write_weights(const ps::Layout& layout, std::span<const float> weights,
                                          std::span<const store::Tensor> frozen, const Names& aliases,
                                          const fs::path& file) {
  std::vector<std::vector<std::byte>> converted;  // outlives the views
  converted.reserve(layout.tensors().size());
  std::vector<store::TensorView> views;
  std::map<std::string, std::size_t> places;
  for (const ps::TensorSpec& spec : layout.tensors()) {
    const float* data = weights.data() + spec.offset;
    if (spec.kind != ps::TensorKind::kConstant && spec.dtype != ps::Dtype::kFloat32) {
      converted.push_back(ps::convert({data, static_cast<std::size_t>(spec.size)}, spec.dtype));
      data = reinterpret_cast<const float*>(converted.back().data());
    }
    places[spec.name] = views.size();
    views.push_back({spec.name, spec.shape, data, spec.dtype});
  }
  for (const store::Tensor& tensor : frozen) {
    places[tensor.name] = views.size();
    views.push_back({tensor.name, tensor.shape, tensor.data.data(), tensor.dtype});
  }
  for (const auto& [name, tensor] : aliases) {
    const auto found = places.find(tensor);
    if (found == places.end()) continue;
    store::TensorView view = views[found->second];
    view.name = name;
    views.push_back(std::move(view));
  }
  // Readers need each tensor at an offset that suits its type.
  std::stable_sort(views.begin(), views.end(), [](const auto& one, const auto& other) {
    return ps::bytes_of(one.dtype) > ps::bytes_of(other.dtype);
  });
  PACELINE_ASSIGN_OR_RETURN(const fs::path target, behind_links(file.string()));
  PACELINE_RETURN_IF_ERROR(store::write_safetensors(target, views, {{"format", "pt"}}));
  return views.size();
}

// Parameters and statistics, in the names that the program's tool reads if there is one.
absl::StatusOr<std::size_t> write_trained(const Exported& model, const std::vector<float>& weights,
                                          const fs::path& file) {
  std::map<std::string, std::string> other_names;
  for (const auto& [name, tensor] : model.trained_names) other_names.try_emplace(tensor, name);
  ps::Layout trained;
  std::vector<float> values;
  for (const ps::TensorSpec& spec : model.layout.tensors()) {
    if (spec.kind == ps::TensorKind::kConstant) continue;
    const auto named = other_names.find(spec.name);
    trained.add(named == other_names.end() ? spec.name : named->second, spec.kind, spec.shape, spec.dtype);
    values.resize(static_cast<std::size_t>(trained.size()));
    std::copy_n(weights.data() + spec.offset, spec.size, values.data() + trained.tensors().back().offset);
  }
  PACELINE_ASSIGN_OR_RETURN(
      const std::size_t count,
      write_weights(trained, values, {}, other_names.empty() ? model.aliases : Names{}, file));
  if (!model.adapter_config.empty() && file.filename() == kAdapterWeights)
    PACELINE_RETURN_IF_ERROR(
        store::atomic_write(fs::path(file).replace_filename(kAdapterConfig), model.adapter_config + "\n"));
  return count;
}

absl::Status export_weights(const ExportOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(options.run));
  PACELINE_ASSIGN_OR_RETURN(const Exported model, model_of(paths));
  // A run that trains may delete a checkpoint while it is read: then there is a newer one.
  constexpr int kTries = 3;
  absl::StatusOr<std::vector<float>> weights = absl::NotFoundError("");
  Version version;
  for (int i = 0; i < kTries && !weights.ok(); ++i) {
    const auto newest = store::newest_whole_checkpoint(paths.root);
    if (!newest.ok()) {
      weights = newest.status();
      continue;
    }
    version = newest->checkpoint.state.controller.version;
    weights = store::load_weights(newest->checkpoint.directory, model.layout);
  }
  PACELINE_RETURN_IF_ERROR(weights.status());
  std::size_t count = 0;
  if (options.trainable) {
    PACELINE_ASSIGN_OR_RETURN(count, write_trained(model, *weights, options.file));
  } else {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<store::Tensor> frozen, frozen_of(model, paths));
    PACELINE_ASSIGN_OR_RETURN(count,
                              write_weights(model.layout, *weights, frozen, model.aliases, options.file));
  }
  launch::print(stdout, fmt::format("{}: {} tensors of version {}\n", options.file, count, version));
  return absl::OkStatus();
}

}  // namespace

absl::Status export_command(const ExportOptions& options) {
  const std::initializer_list<std::string> all = {options.file, options.trace, options.tables,
                                                  options.tensorboard, options.prometheus};
  if (std::all_of(all.begin(), all.end(), [](const std::string& one) { return one.empty(); })) {
    return absl::InvalidArgumentError(
        "export: write where to: a file for the weights, --trace FILE, --csv DIR, --tensorboard DIR or "
        "--prometheus FILE");
  }
  if (options.trainable && options.file.empty())
    return absl::InvalidArgumentError("export: --trainable: name a file that ends in .safetensors as well");
  PACELINE_RETURN_IF_ERROR(check_ending(options.file));
  PACELINE_RETURN_IF_ERROR(check_output(options.prometheus));
  for (const std::string& file : {options.file, options.trace}) {
    if (!file.empty()) PACELINE_RETURN_IF_ERROR(check_target(file));
  }
  if (!options.file.empty()) PACELINE_RETURN_IF_ERROR(export_weights(options));
  if (!options.trace.empty()) PACELINE_RETURN_IF_ERROR(export_trace(options.run, options.trace));
  if (!options.tables.empty()) PACELINE_RETURN_IF_ERROR(export_tables(options.run, options.tables));
  if (!options.prometheus.empty())
    PACELINE_RETURN_IF_ERROR(export_prometheus(options.run, options.prometheus));
  if (options.follow) return follow_tensorboard(options.run, options.tensorboard);
  if (!options.tensorboard.empty())
    PACELINE_RETURN_IF_ERROR(export_tensorboard(options.run, options.tensorboard));
  return absl::OkStatus();
}

}  // namespace paceline::cli
