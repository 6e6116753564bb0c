#include "paceline/tools/cli/cluster_problem.h"

#include <filesystem>

#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/tools/cli/standard_input.h"
#include "paceline/tools/cli/torch_program.h"

namespace paceline::cli {

absl::StatusOr<config::ClusterFile> read_cluster(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file));
  PACELINE_ASSIGN_OR_RETURN(config::ClusterFile cluster, config::parse_cluster(text, shown_name(file)));
  if (cluster.named) {
    const config::NamedModel& named = *cluster.named;
    PACELINE_RETURN_IF_ERROR(need_built_in_models());
    auto measured = engine::built_in()->profile(named.model, named.sample_shape, named.classes);
    if (!measured.ok()) return runs::about_file(shown_name(file), measured.status());
    cluster.problem.model = *std::move(measured);
  } else if (!cluster.profile.empty()) {
    const std::filesystem::path beside = std::filesystem::path(file).parent_path() / cluster.profile;
    PACELINE_ASSIGN_OR_RETURN(const std::string layers, runs::read_job_file(beside));
    PACELINE_ASSIGN_OR_RETURN(cluster.problem.model,
                              config::parse_profile(layers, beside.string(), cluster.each));
  }
  return cluster;
}

absl::StatusOr<config::ClusterFile> read_cluster(const std::string& file, planner::ModelProfile model) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file));
  PACELINE_ASSIGN_OR_RETURN(config::ClusterFile cluster,
                            config::parse_cluster(text, shown_name(file), config::ModelIs::kElsewhere));
  cluster.problem.model = std::move(model);
  return cluster;
}

absl::StatusOr<planner::ModelProfile> read_profile(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file));
  return config::parse_profile(text, shown_name(file));
}

}  // namespace paceline::cli
