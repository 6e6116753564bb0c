#include "paceline/cli/compare_command.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/comparison.h"
#include "paceline/cli/train_command.h"
#include "paceline/cli/ui_child.h"
#include "paceline/launch/stop_signals.h"
#include "paceline/policy/policy_spec.h"
#include "paceline/runs/job_file.h"
#include "paceline/store/files.h"

namespace paceline::cli {

namespace {

absl::StatusOr<std::string> make_folder(const std::string& base, const std::string& name) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path runs, store::absolute_path(base));
  const std::filesystem::path folder =
      runs / fmt::format("{}-{:%Y%m%dT%H%M%SZ}-compare", name, fmt::gmtime(now));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(
        fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  return folder.string();
}

// What is laid over the job for each of its runs.
using Variant = std::vector<std::string>;

absl::StatusOr<std::vector<Variant>> variants_of(const CompareOptions& options) {
  if (options.policies.empty() && options.parallel.empty()) {
    return absl::InvalidArgumentError(
        "say what to compare, for example --policies bsp,asp,ssp:3 or --parallel joint,uneven-data,data");
  }
  std::vector<Variant> variants;
  if (options.policies.empty()) {
    variants.emplace_back();
  } else {
    PACELINE_ASSIGN_OR_RETURN(const auto policies, policy::parse_policies(options.policies));
    for (const policy::PolicySpec& policy : policies)
      variants.push_back({"sync.policy=\"" + policy::to_string(policy) + "\""});
  }
  if (options.parallel.empty()) return variants;
  std::vector<Variant> both;
  for (const Variant& variant : variants) {
    for (const std::string& mode : std::vector<std::string>(absl::StrSplit(options.parallel, ','))) {
      both.push_back(variant);
      both.back().push_back(fmt::format("parallel=\"{}\"", mode));
    }
  }
  return both;
}

// Seed after seed, so that one that is stopped has compared all of them with some seeds.
std::vector<Variant> with_seeds(const std::vector<Variant>& variants, std::uint64_t first,
                                std::int64_t count) {
  if (count == 1) return variants;
  std::vector<Variant> all;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const Variant& variant : variants) {
      all.push_back(variant);
      all.back().push_back(fmt::format("seed={}", first + static_cast<std::uint64_t>(i)));
    }
  }
  return all;
}

// All that can be wrong with one of them is said before the first one is trained.
absl::Status check_variant(const std::string& job_toml, const Variant& sets, const CompareOptions& options) {
  const std::string label =
      fmt::format("{} under {}", options.job_file.empty() ? "the default job" : options.job_file,
                  absl::StrJoin(sets, ", "));
  PACELINE_RETURN_IF_ERROR(config::parse_job(job_toml, label, sets, config::SetBy::kCommand).status());
  PACELINE_ASSIGN_OR_RETURN(const std::string own_toml, config::resolve_job(job_toml, label, sets));
  const absl::Status planned = check_plan(own_toml, options.in_virtual_time);
  return planned.ok() ? planned : runs::about_file(label, planned);
}

// False when the user stopped it.
absl::StatusOr<bool> run_one(const std::string& job_toml, Variant sets, const std::string& folder,
                             const std::string& program, const CompareOptions& compare,
                             Comparison& compared) {
  TrainOptions options;
  options.program = program;
  options.shown = compare.json ? launch::Shown::kJson : launch::Shown::kLine;
  options.in_virtual_time = compare.in_virtual_time;
  sets.push_back("runs_dir=\"" + folder + "\"");
  PACELINE_ASSIGN_OR_RETURN(const std::string own_toml, config::resolve_job(job_toml, "job.toml", sets));
  PACELINE_ASSIGN_OR_RETURN(const TrainedRun run, train(own_toml, options));
  PACELINE_ASSIGN_OR_RETURN(runs::RunReport report, runs::read_run(run.folder));
  PACELINE_RETURN_IF_ERROR(runs::write_report(run.folder, report));
  compared.add(std::move(report));
  return !run.interrupted;
}

}  // namespace

absl::StatusOr<int> compare_command(const CompareOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto variants, variants_of(options));
  TrainOptions asked{.job_file = options.job_file, .sets = options.sets};
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, checked_job(asked));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, options.job_file));
  for (const Variant& variant : variants) PACELINE_RETURN_IF_ERROR(check_variant(job_toml, variant, options));
  PACELINE_ASSIGN_OR_RETURN(const std::string folder, make_folder(job.runs_dir, job.name));
  launch::catch_stop_signals();
  std::optional<UiChild> pages;
  if (options.ui) {
    PACELINE_ASSIGN_OR_RETURN(pages, UiChild::with_pages());
    PACELINE_RETURN_IF_ERROR(pages->start(folder, folder, ""));
  }
  Comparison compared;
  bool going_on = true;
  for (const Variant& variant : with_seeds(variants, job.seed, options.seeds)) {
    const auto ran = run_one(job_toml, variant, folder, asked.program, options, compared);
    if (!ran.ok()) {
      std::error_code ignored;
      pages.reset();
      std::filesystem::remove(folder + "/ui.log", ignored);
      std::filesystem::remove(folder, ignored);  // does nothing when there is something in it
      return ran.status();
    }
    going_on = *ran;
    PACELINE_RETURN_IF_ERROR(write_comparison(folder, compared));
    if (!going_on) break;
  }
  print_comparison(compared, folder, options.json);
  return going_on ? 0 : launch::exit_of_stop();
}

}  // namespace paceline::cli
