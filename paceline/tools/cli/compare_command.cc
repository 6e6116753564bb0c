#include "paceline/tools/cli/compare_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/unfinished_run.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/tools/cli/card_settings.h"
#include "paceline/tools/cli/comparison.h"
#include "paceline/tools/cli/measured_models.h"
#include "paceline/tools/cli/planned_comparison.h"
#include "paceline/tools/cli/program_probe.h"
#include "paceline/tools/cli/said_once.h"
#include "paceline/tools/cli/standard_input.h"
#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/train_command.h"
#include "paceline/tools/cli/ui_child.h"

namespace paceline::cli {

namespace {

absl::StatusOr<std::string> make_folder(const std::string& base, const std::string& name) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path runs, store::absolute_path(base));
  std::error_code error;
  std::filesystem::create_directories(runs, error);
  if (error) return store::io_error(runs, "made", error.value());
  PACELINE_ASSIGN_OR_RETURN(
      const std::filesystem::path folder,
      store::make_new_directory(runs, fmt::format("{}-{:%Y%m%dT%H%M%SZ}-compare", name, fmt::gmtime(now))));
  return folder.string();
}

// The settings over the job for each of its runs.
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
    const auto policies = policy::parse_policies(options.policies);
    if (!policies.ok()) return runs::about_file("--policies", policies.status());
    // The text of a parsed policy would leave out defaults, and the file may have other values.
    for (const std::string& policy : std::vector<std::string>(absl::StrSplit(options.policies, ',')))
      variants.push_back({"sync.policy=\"" + policy + "\""});
  }
  if (options.parallel.empty()) return variants;
  const std::vector<std::string> modes = absl::StrSplit(options.parallel, ',');
  for (auto mode = modes.begin(); mode != modes.end(); ++mode) {
    if (std::find(modes.begin(), mode, *mode) != mode)
      return absl::InvalidArgumentError(fmt::format("--parallel: '{}' is there twice; write it once", *mode));
  }
  std::vector<Variant> both;
  for (const Variant& variant : variants) {
    for (const std::string& mode : modes) {
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

// Checks that --set does not repeat what --policies and --parallel say.
absl::Status check_says_once(const CompareOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_said_once("--policies", options.policies, "sync.policy", options.sets));
  return check_said_once("--parallel", options.parallel, "parallel", options.sets);
}

std::string option_of(const std::string& set) {
  const std::vector<std::string> parts = absl::StrSplit(set, '"');
  return fmt::format("{} {}", set.starts_with("parallel=") ? "--parallel" : "--policies", parts[1]);
}

// "--policies asp --parallel joint".
std::string options_of(const Variant& sets) {
  std::vector<std::string> options;
  for (const std::string& set : sets) options.push_back(option_of(set));
  return absl::StrJoin(options, " ");
}

// The program's answer about itself for one of its runs.
const std::string& answer_for(const PlannedComparison& compared, const config::JobConfig& job) {
  return job.parallel.to_be_planned && !compared.planned_program.empty() ? compared.planned_program
                                                                         : compared.program;
}

// The job of one of its runs.
absl::StatusOr<std::string> job_of(const PlannedComparison& compared, const Variant& sets) {
  PACELINE_ASSIGN_OR_RETURN(const std::string own, config::resolve_job(compared.job_toml, "job.toml", sets));
  if (compared.in_virtual_time) return own;
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(own, "job.toml"));
  return with_card_settings(own, "job.toml", answer_for(compared, job));
}

// The program's answer for runs that are planned; empty if there are none.
absl::StatusOr<std::string> answer_for_plans(const std::string& job_toml,
                                             const std::vector<Variant>& variants) {
  for (const Variant& variant : variants) {
    const auto job = config::parse_job(job_toml, "job.toml", variant);
    // check_variant() says what is wrong with it.
    if (!job.ok() || !job->program || !job->parallel.to_be_planned) continue;
    PACELINE_ASSIGN_OR_RETURN(const program::Model model, probe_program(*job, ""));
    return model.text;
  }
  return "";
}

// All that can be wrong with one of them is said before the first one is trained. If it is to be planned, its model is
// measured once for all variants and seeds, and laid over it.
absl::Status check_variant(const PlannedComparison& compared, Variant& sets, MeasuredModels& models,
                           const CompareOptions& options) {
  const std::string file = options.job_file.empty() ? "the default job" : shown_name(options.job_file);
  const std::string label = fmt::format("{} with {}", file, options_of(sets));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(compared.job_toml, label, sets, config::SetBy::kCommand));
  const absl::StatusOr<std::string> layers = models.layers_of(job, compared.job_toml);
  if (!layers.ok()) return runs::about_file(label, layers.status());
  if (!layers->empty()) sets.push_back(*layers);
  PACELINE_ASSIGN_OR_RETURN(const std::string own_toml, job_of(compared, sets));
  const absl::Status planned = check_plan(own_toml, options.in_virtual_time);
  return planned.ok() ? planned : runs::about_file(label, planned);
}

absl::StatusOr<PlannedComparison> plan_comparison(const CompareOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_says_once(options));
  PACELINE_ASSIGN_OR_RETURN(auto variants, variants_of(options));
  TrainOptions asked{.job_file = options.job_file, .sets = options.sets};
  asked.shown = options.shown;
  asked.in_virtual_time = options.in_virtual_time;
  asked.has_variants = true;
  PlannedComparison planned;
  PACELINE_ASSIGN_OR_RETURN(planned.job_toml, checked_job(asked));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(planned.job_toml, options.job_file));
  planned.program = asked.program;
  planned.data_note = asked.data_note;
  planned.fork_server = asked.fork_server;
  planned.in_virtual_time = options.in_virtual_time;
  PACELINE_ASSIGN_OR_RETURN(planned.planned_program, answer_for_plans(planned.job_toml, variants));
  MeasuredModels models;
  for (Variant& variant : variants)
    PACELINE_RETURN_IF_ERROR(check_variant(planned, variant, models, options));
  planned.runs = with_seeds(variants, job.seed, options.seeds);
  return planned;
}

// "asp, joint, seed=2".
std::string name_of(const Variant& variant) {
  std::vector<std::string> names;
  for (const std::string& set : variant) {
    if (set.starts_with("layer=")) continue;
    const std::vector<std::string> quoted = absl::StrSplit(set, '"');
    names.push_back(quoted.size() == 3 ? quoted[1] : set);
  }
  return absl::StrJoin(names, ", ");
}

// A comparison and how far it is.
class Course {
 public:
  Course(PlannedComparison planned, std::string folder, launch::Shown shown)
      : planned_(std::move(planned)), folder_(std::move(folder)), shown_(shown) {
    compared_.planned = counts_of(planned_);
  }

  const Comparison& compared() const { return compared_; }

  // False when the user stopped it.
  absl::StatusOr<bool> run_all() {
    for (std::size_t i = 0; i < planned_.runs.size(); ++i) {
      PACELINE_ASSIGN_OR_RETURN(const bool going_on, run_one(i));
      PACELINE_RETURN_IF_ERROR(write_comparison(folder_, compared_));
      if (!going_on) return false;
    }
    return true;
  }

 private:
  absl::StatusOr<bool> run_one(std::size_t i) {
    PACELINE_ASSIGN_OR_RETURN(const std::string own_toml, job_in(folder_, i));
    PACELINE_ASSIGN_OR_RETURN(const std::string before, find_run_of(i));
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(own_toml, "job.toml"));
    if (!before.empty() &&
        (runs::is_over(before, job) || runs::stopped_at_target(before) || runs::has_diverged(before))) {
      PACELINE_RETURN_IF_ERROR(take(before));
      return true;
    }
    tell(i);
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<TrainedRun> run = train_on(own_toml, before, answer_for(planned_, job));
    trained_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++trained_;
    if (!run.ok()) return take_diverged(i, run.status());
    PACELINE_RETURN_IF_ERROR(run->after);
    PACELINE_RETURN_IF_ERROR(take(run->folder));
    return !run->interrupted;
  }

  // A training that diverges is a result, as in a sweep. Any other failure ends the comparison.
  absl::StatusOr<bool> take_diverged(std::size_t i, const absl::Status& failure) {
    PACELINE_ASSIGN_OR_RETURN(const std::string run, find_run_of(i));
    if (run.empty() || !runs::has_diverged(run)) return failure;
    launch::print(stderr, fmt::format("{}: {}\n", name_of(planned_.runs[i]), std::string(failure.message())));
    PACELINE_RETURN_IF_ERROR(take(run));
    return launch::stop_signals() == 0;
  }

  absl::StatusOr<std::string> job_in(const std::string& runs_dir, std::size_t i) const {
    PACELINE_ASSIGN_OR_RETURN(const std::string own, job_of(planned_, planned_.runs[i]));
    return config::resolve_job(own, "job.toml", {"runs_dir=" + config::in_quotes(runs_dir)});
  }

  // The folder of a run; empty if the run has not begun. The folder may have been moved, so runs_dir does not
  // matter.
  absl::StatusOr<std::string> find_run_of(std::size_t i) const {
    PACELINE_ASSIGN_OR_RETURN(const std::string mine, job_in("", i));
    for (const std::string& run : runs_in(folder_)) {
      const auto asked = runs::read_job_file(store::RunPaths{run}.asked());
      if (!asked.ok()) continue;
      const auto without_place = config::resolve_job(*asked, "asked.toml", {"runs_dir=\"\""});
      if (without_place.ok() && *without_place == mine) return run;
    }
    return "";
  }

  // "2 of 6: asp, about 4m left".
  void tell(std::size_t i) const {
    if (shown_ == launch::Shown::kNothing || planned_.runs.size() == 1) return;
    std::string line = fmt::format("{} of {}: {}", i + 1, planned_.runs.size(), name_of(planned_.runs[i]));
    if (trained_ > 0) {
      const double left = trained_s_ / trained_ * static_cast<double>(planned_.runs.size() - i);
      line += fmt::format("; about {} left", report::short_duration(left));
    }
    launch::print(stderr, line + "\n");
  }

  // A run that was cut short before its first checkpoint has nothing to go on from. One whose checkpoints cannot be read
  // stays.
  absl::StatusOr<TrainedRun> train_on(const std::string& own_toml, const std::string& before,
                                      const std::string& program) const {
    TrainOptions options;
    options.program = program;
    options.data_note = planned_.data_note;
    options.fork_server = planned_.fork_server;
    options.shown = shown_;
    options.names_folder = false;
    options.in_virtual_time = planned_.in_virtual_time;
    if (before.empty()) return train(own_toml, options);
    const absl::Status newest = store::latest_checkpoint(before).status();
    if (newest.ok()) {
      options.resume = before;
      return go_on(std::move(options));
    }
    if (!absl::IsNotFound(newest)) return newest;
    PACELINE_ASSIGN_OR_RETURN(const store::RunFolder locked, store::RunFolder::resume(before));
    std::error_code error;
    std::filesystem::remove_all(before, error);
    if (error)
      return absl::PermissionDeniedError(fmt::format("{}: cannot be removed: {}", before, error.message()));
    return train(own_toml, options);
  }

  absl::Status take(const std::string& run) {
    PACELINE_ASSIGN_OR_RETURN(runs::RunReport report, runs::read_run(run));
    PACELINE_RETURN_IF_ERROR(runs::write_report(run, report));
    compared_.add(std::move(report));
    return absl::OkStatus();
  }

  const PlannedComparison planned_;
  const std::string folder_;
  const launch::Shown shown_;
  Comparison compared_;
  double trained_s_ = 0;  // time of the runs that this command trained
  int trained_ = 0;
};

std::string how_to_go_on(const std::string& folder) {
  return fmt::format("go on with: paceline compare --resume {}", shell_word(folder));
}

// If nothing was trained, the folder is removed.
absl::Status end_of_comparison(const absl::Status& error, const std::string& folder) {
  std::error_code ignored;  // the first error is the one to tell
  const std::filesystem::directory_iterator found(folder, ignored);
  const bool has_runs = ignored || std::any_of(begin(found), end(found), [](const auto& entry) {
                          std::error_code unknown;
                          return entry.is_directory(unknown) || unknown;
                        });
  if (has_runs)
    return {error.code(), fmt::format("{}; {}", std::string(error.message()), how_to_go_on(folder))};
  std::filesystem::remove_all(folder, ignored);
  return error;
}

}  // namespace

absl::StatusOr<int> compare_command(const CompareOptions& options) {
  launch::catch_warning_signals();
  const bool goes_on = !options.resume.empty();
  PACELINE_ASSIGN_OR_RETURN(const PlannedComparison planned,
                            goes_on ? read_planned(options.resume) : plan_comparison(options));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(planned.job_toml, options.job_file));
  if (goes_on && planned.in_virtual_time && !job.program) PACELINE_RETURN_IF_ERROR(need_built_in_models());
  std::string folder;
  if (goes_on) {
    PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path named, store::absolute_path(options.resume));
    folder = named.string();
  } else {
    PACELINE_ASSIGN_OR_RETURN(folder, make_folder(job.runs_dir, job.name));
  }
  launch::catch_stop_signals();
  std::optional<UiChild> pages;
  if (options.ui) {
    PACELINE_ASSIGN_OR_RETURN(pages, UiChild::with_pages());
    PACELINE_RETURN_IF_ERROR(pages->start(folder, folder, ""));
  }
  if (!goes_on) PACELINE_RETURN_IF_ERROR(write_planned(folder, planned));
  if (options.shown != launch::Shown::kNothing)
    launch::print(stderr, fmt::format("comparison: {}\n", folder));
  Course course(planned, folder, options.shown);
  const absl::StatusOr<bool> whole = course.run_all();
  pages.reset();
  if (!whole.ok()) return end_of_comparison(whole.status(), folder);
  print_comparison(course.compared(), folder, options.shown == launch::Shown::kJson);
  if (!*whole) {
    launch::print(stderr, fmt::format("stopped; {}\n", how_to_go_on(folder)));
    return launch::exit_of_stop();
  }
  // People may have stopped a run on its page, and the comparison went on with the next one.
  const auto& runs = course.compared().summaries;
  const auto unfinished =
      std::count_if(runs.begin(), runs.end(), [](const report::Summary& run) { return !run.is_over(); });
  if (unfinished > 0) {
    launch::print(stderr,
                  fmt::format("{} unfinished; {}\n", counted(unfinished, "training"), how_to_go_on(folder)));
  }
  return 0;
}

}  // namespace paceline::cli
