#include "paceline/tools/cli/measured_models.h"

#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/formats/config/planning.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/torch_program.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kMostModelBytes = 64 << 20;

absl::StatusOr<std::string> key_of(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table job, config::parse_toml(text, "job.toml"));
  std::ostringstream said;
  said << job["model"] << '\n' << job["data"];
  return fmt::format("{:016x}", text_hash(said.str()));
}

// Nothing if there is no such file.
absl::StatusOr<std::map<std::string, std::string>> settings_in(const fs::path& file) {
  std::map<std::string, std::string> settings;
  const auto text = store::read_file(file, kMostModelBytes);
  if (absl::IsNotFound(text.status())) return settings;
  PACELINE_RETURN_IF_ERROR(text.status());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const absl::Status damaged = absl::DataLossError(
      fmt::format("{}: is damaged; remove it, and the models are measured again", file.string()));
  if (!json.is_object()) return damaged;
  for (const auto& [key, setting] : json.items()) {
    if (!setting.is_string() || !setting.get<std::string>().starts_with("layer=[")) return damaged;
    settings[key] = setting.get<std::string>();
  }
  return settings;
}

}  // namespace

absl::StatusOr<MeasuredModels> MeasuredModels::read(const fs::path& file) {
  MeasuredModels models;
  PACELINE_ASSIGN_OR_RETURN(models.settings_, settings_in(file));
  return models;
}

absl::StatusOr<std::string> MeasuredModels::layers_of(const config::JobConfig& job, const std::string& text) {
  if (job.program || !job.parallel.to_be_planned || !job.parallel.model.layers.empty()) return "";
  PACELINE_ASSIGN_OR_RETURN(const std::string key, key_of(text));
  const auto found = settings_.find(key);
  if (found != settings_.end()) return found->second;
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(const planner::ModelProfile model, engine::built_in()->profile(job));
  any_new_ = true;
  return settings_[key] = config::layer_setting(model);
}

absl::Status MeasuredModels::write(const fs::path& file) const {
  if (!any_new_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const auto there, settings_in(file));
  for (const auto& [key, setting] : there) {
    const auto mine = settings_.find(key);
    if (mine == settings_.end() || mine->second != setting)
      return absl::FailedPreconditionError(fmt::format(
          "{}: another command has just measured models for this folder; begin again", file.string()));
  }
  return store::atomic_write(file, nlohmann::json(settings_).dump(1) + "\n");
}

}  // namespace paceline::cli
