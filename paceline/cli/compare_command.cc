#include "paceline/cli/compare_command.h"

#include <chrono>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/comparison.h"
#include "paceline/cli/stop_signals.h"
#include "paceline/cli/train_command.h"
#include "paceline/policy/policy_spec.h"

namespace paceline::cli {

namespace {

absl::StatusOr<std::string> make_folder(const std::string& base, const std::string& name) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::filesystem::path folder =
      std::filesystem::absolute(base) / fmt::format("{}-{:%Y%m%dT%H%M%SZ}-compare", name, fmt::gmtime(now));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(
        fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  return folder.string();
}

// False when the user stopped it.
absl::StatusOr<bool> run_one(const std::string& job_toml, const policy::PolicySpec& policy,
                             const std::string& folder, const CompareOptions& compare, Comparison& compared) {
  TrainOptions options;
  options.shown = compare.json ? Shown::kJson : Shown::kLine;
  options.in_virtual_time = compare.in_virtual_time;
  const std::vector<std::string> sets = {"sync.policy=\"" + policy::to_string(policy) + "\"",
                                         "runs_dir=\"" + folder + "\""};
  PACELINE_ASSIGN_OR_RETURN(const std::string own_toml, config::resolve_job(job_toml, "job.toml", sets));
  PACELINE_ASSIGN_OR_RETURN(const TrainedRun run, train(own_toml, options));
  PACELINE_ASSIGN_OR_RETURN(RunReport report, read_run(run.folder));
  PACELINE_RETURN_IF_ERROR(write_report(run.folder, report));
  compared.add(std::move(report));
  return !run.interrupted;
}

}  // namespace

absl::StatusOr<int> compare_command(const CompareOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto policies, policy::parse_policies(options.policies));
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml,
                            checked_job({.job_file = options.job_file, .sets = options.sets}));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, options.job_file));
  PACELINE_ASSIGN_OR_RETURN(const std::string folder, make_folder(job.runs_dir, job.name));
  catch_stop_signals();
  Comparison compared;
  bool going_on = true;
  for (const policy::PolicySpec& policy : policies) {
    const auto ran = run_one(job_toml, policy, folder, options, compared);
    if (!ran.ok()) {
      std::error_code ignored;
      std::filesystem::remove(folder, ignored);  // does nothing when there is something in it
      return ran.status();
    }
    going_on = *ran;
    PACELINE_RETURN_IF_ERROR(write_comparison(folder, compared));
    if (!going_on) break;
  }
  print_comparison(compared, folder, options.json);
  return going_on ? 0 : exit_of_stop();
}

}  // namespace paceline::cli
