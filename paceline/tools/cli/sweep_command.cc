#include "paceline/tools/cli/sweep_command.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/program_version.h"
#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/formats/config/origin.h"
#include "paceline/formats/config/sweep.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/runs/about_run.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/pages/html.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/build_id.h"
#include "paceline/tools/cli/measured_models.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/standard_input.h"
#include "paceline/tools/cli/sweep_grids.h"
#include "paceline/tools/cli/sweep_inputs.h"
#include "paceline/tools/cli/sweep_results.h"
#include "paceline/tools/cli/sweep_trainings.h"
#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

// A sweep and its trainings, all of them with a job that can be read.
struct Plan {
  std::string file;  // the name in messages
  config::Sweep sweep;
  std::string job_file, job_text;
  std::vector<Training> trainings;
};

report::Json axes_json(const config::Sweep& sweep, const config::SweepCell& cell) {
  report::Json axes = report::Json::object();
  for (std::size_t i = 0; i < cell.size(); ++i) axes[sweep.axes[i].name] = sweep.axes[i].values[cell[i]].name;
  return axes;
}

absl::Status read_job(const std::string& text, const std::string& file, std::vector<std::string> sets,
                      Training& training) {
  PACELINE_ASSIGN_OR_RETURN(training.job, config::parse_job(text, file, sets));
  // The folder of a training's runs is no part of its name.
  sets.push_back("runs_dir=\"\"");
  PACELINE_ASSIGN_OR_RETURN(training.text, config::resolve_job(text, file, sets));
  training.name = fmt::format("{:016x}", text_hash(training.text));
  if (training.job.program)
    return absl::InvalidArgumentError(
        fmt::format("{}: program: a sweep trains built-in models; compare trains programs", file));
  PACELINE_RETURN_IF_ERROR(check_in_virtual_time(training.job));
  if (training.job.target) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: evaluate.target: a sweep measures the time to a target; write one", file));
}

// Adds the place in the sweep or its job that is wrong.
absl::Status about(const Plan& plan, const Training& training, const absl::Status& error) {
  const std::vector<std::string> sets = config::sets_of(plan.sweep, training.cell);
  const absl::Status of_job = config::with_origin(error, plan.job_text, plan.job_file, sets);
  const absl::Status of_sweep = config::said_by_sweep(of_job, plan.sweep, training.cell, plan.file);
  return of_sweep == of_job ? about_training(training, plan.file, of_job) : of_sweep;
}

absl::StatusOr<Plan> read_plan(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file));
  Plan plan{shown_name(file), {}, {}, {}, {}};
  PACELINE_ASSIGN_OR_RETURN(plan.sweep, config::parse_sweep(text, plan.file));
  plan.job_file = fs::path(file).replace_filename(plan.sweep.job).string();
  PACELINE_ASSIGN_OR_RETURN(plan.job_text, runs::read_job_file(plan.job_file));
  for (const config::SweepCell& cell : config::cells_of(plan.sweep)) {
    Training training{cell, config::name_of(plan.sweep, cell), axes_json(plan.sweep, cell), {}, {}, {}};
    const absl::Status status =
        read_job(plan.job_text, plan.job_file, config::sets_of(plan.sweep, cell), training);
    if (!status.ok()) return about(plan, training, status);
    plan.trainings.push_back(std::move(training));
  }
  return plan;
}

const KeptResult* result_of(const Training& training, const SweepResults& results) {
  return results.find(training.name, training.inputs);
}

// Only the first of equal jobs.
std::vector<const Training*> different(const Plan& plan) {
  std::set<std::string> seen;
  std::vector<const Training*> list;
  for (const Training& training : plan.trainings) {
    if (seen.insert(training.name).second) list.push_back(&training);
  }
  return list;
}

// The different trainings without a result.
std::vector<const Training*> missing(const Plan& plan, const SweepResults& results) {
  std::vector<const Training*> list = different(plan);
  std::erase_if(list, [&](const Training* training) { return result_of(*training, results) != nullptr; });
  return list;
}

// "3 of 12 trainings are by another build of Paceline (this one is 0.1.0 …)", or nothing. Another build may give
// other numbers for the same job.
std::string other_builds(const Plan& plan, const SweepResults& results) {
  const std::vector<const Training*> all = different(plan);
  const auto count = std::count_if(all.begin(), all.end(), [&](const Training* training) {
    const KeptResult* kept = result_of(*training, results);
    return kept != nullptr && kept->build != build_id();
  });
  if (count == 0) return "";
  return fmt::format("{} of {} trainings {} by another build of Paceline (this one is {})", count, all.size(),
                     count == 1 ? "is" : "are", build_id());
}

// People hear of results that are kept although the program has changed, and of those that do not count any more.
void say_what_has_changed(const Plan& plan, const SweepResults& results, const fs::path& out) {
  const std::vector<const Training*> trainings = missing(plan, results);
  const auto again = std::count_if(trainings.begin(), trainings.end(),
                                   [&](const Training* training) { return results.has_any(training->name); });
  if (again > 0) {
    launch::print(stderr,
                  fmt::format("{} on other data or other initial weights than before, and {} trained again\n",
                              again == 1 ? "1 training is" : fmt::format("{} trainings are", again),
                              again == 1 ? "is" : "are"));
  }
  if (const std::string others = other_builds(plan, results); !others.empty()) {
    launch::print(stderr, fmt::format("{}, and kept; to train them again, remove their lines from {}\n",
                                      others, (out / "results.jsonl").string()));
  }
}

// Whether the plan of a training can be made, if it wants one. Its model is measured once for all trainings.
absl::Status check_planned(Training& training, MeasuredModels& models) {
  if (!training.job.parallel.to_be_planned) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(training.layers, models.layers_of(training.job, training.text));
  std::vector<std::string> sets = {"runs_dir=\"runs\""};
  if (!training.layers.empty()) sets.push_back(training.layers);
  PACELINE_ASSIGN_OR_RETURN(const std::string somewhere,
                            config::resolve_job(training.text, "job.toml", sets));
  return check_plan(somewhere, true);
}

// Reads each data set and builds each model once. Notes of the data go to the trainings.
absl::Status check(Plan& plan, MeasuredModels& models) {
  SweepInputs inputs;
  std::vector<std::pair<const config::JobConfig*, JobSizes>> known;
  std::set<std::string> notes;
  for (Training& training : plan.trainings) {
    const config::JobConfig& job = training.job;
    auto sizes = std::find_if(known.begin(), known.end(), [&](const auto& other) {
      return other.first->model == job.model && other.first->data == job.data;
    });
    if (sizes == known.end()) {
      auto read = read_data_and_model(job);
      if (!read.ok()) return about(plan, training, read.status());
      if (!read->note.empty() && notes.insert(read->note).second) launch::print(stderr, read->note + "\n");
      sizes = known.insert(known.end(), {&job, *std::move(read)});
    }
    training.data_note = sizes->second.note;
    absl::Status good = check_fits(job, sizes->second, true);
    if (good.ok()) good = check_planned(training, models);
    if (!good.ok()) return about(plan, training, good);
    absl::StatusOr<std::string> read = inputs.of(job);
    if (!read.ok()) return about(plan, training, read.status());
    training.inputs = *std::move(read);
  }
  return absl::OkStatus();
}

std::string json_of(const Plan& plan, const SweepResults& results) {
  std::vector<report::Json> objects;
  for (const Training& training : plan.trainings) {
    if (const KeptResult* kept = result_of(training, results))
      objects.push_back(sweep_line(training.name, training.axes, *kept));
  }
  return report::lines(objects);
}

std::string tables_of(const Plan& plan, const SweepResults& results, report::TableStyle style) {
  std::map<config::SweepCell, const Training*> by_cell;
  for (const Training& training : plan.trainings) by_cell[training.cell] = &training;
  const auto result_at = [&](const config::SweepCell& cell) {
    const KeptResult* kept = result_of(*by_cell.at(cell), results);
    return kept == nullptr ? nullptr : &kept->result;
  };
  const auto target_of = [&](const config::SweepCell& cell) { return *by_cell.at(cell)->job.target; };
  std::string text;
  for (const report::SweepGrid& grid : sweep_grids(plan.sweep, result_at, target_of))
    text += (text.empty() ? "" : "\n") + report::sweep_tables(grid, style);
  const std::string others = other_builds(plan, results);
  if (!others.empty() && style != report::TableStyle::kHtml) text += "\n" + others + "\n";
  return text;
}

// "method: BSP, CGP".
std::string axis_text(const config::SweepAxis& axis) {
  return axis.name + ": " +
         absl::StrJoin(axis.values, ", ",
                       [](std::string* out, const config::SweepValue& value) { *out += value.name; });
}

// A description of the sweep, for the page. `trained`: the number of trainings of this command.
report::Json about_sweep(const Plan& plan, const SweepResults& results, std::size_t trained,
                         runs::RunOrigin origin) {
  std::vector<config::JobConfig> jobs;
  std::set<std::string> notes, there;
  for (const Training& training : plan.trainings) {
    jobs.push_back(training.job);
    if (!training.data_note.empty()) notes.insert(training.data_note);
    if (result_of(training, results) != nullptr) there.insert(training.name);
  }
  report::Json list = report::Json::array();
  const auto add = [&](const char* name, const std::string& text) { runs::add_about(list, name, text); };
  add("sweep", plan.file);
  add("job", plan.sweep.job);
  for (const config::SweepAxis& axis : plan.sweep.axes) add("axis", axis_text(axis));
  const std::size_t earlier = there.size() - trained;
  add("trainings", fmt::format("{}{}", there.size(),
                               earlier > 0 ? fmt::format(", {} of them by earlier commands", earlier) : ""));
  if (const std::string others = other_builds(plan, results); !others.empty()) add("builds", others);
  for (report::Json& one : runs::about_jobs(jobs)) list.push_back(std::move(one));
  origin.data_note = absl::StrJoin(notes, "; ");
  runs::add_origin(list, origin);
  return list;
}

absl::Status show(const Plan& plan, const SweepResults& results, const SweepOptions& options,
                  const report::Json& about) {
  if (!options.html_file.empty()) {
    PACELINE_RETURN_IF_ERROR(write_output(
        options.html_file,
        report::render_tables(
            plan.file, tables_of(plan, results, report::TableStyle::kHtml) + report::about_section(about))));
  }
  if (options.json_file.empty()) {
    const auto style = options.markdown ? report::TableStyle::kMarkdown : report::TableStyle::kText;
    launch::print(stdout, tables_of(plan, results, style));
    return absl::OkStatus();
  }
  return write_output(options.json_file, json_of(plan, results));
}

}  // namespace

absl::StatusOr<int> sweep_command(const SweepOptions& options) {
  launch::catch_warning_signals();
  const runs::RunOrigin origin = runs::this_origin(kProgramVersion);
  PACELINE_RETURN_IF_ERROR(check_output(options.json_file));
  PACELINE_RETURN_IF_ERROR(check_output(options.html_file));
  PACELINE_ASSIGN_OR_RETURN(Plan plan, read_plan(options.file));
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(const fs::path out, store::absolute_path(plan.sweep.out));
  const fs::path measured = out / "models.json";
  PACELINE_ASSIGN_OR_RETURN(MeasuredModels models, MeasuredModels::read(measured));
  PACELINE_RETURN_IF_ERROR(check(plan, models));
  PACELINE_ASSIGN_OR_RETURN(SweepResults results, SweepResults::open(out));
  PACELINE_RETURN_IF_ERROR(models.write(measured));
  say_what_has_changed(plan, results, out);
  const std::vector<const Training*> trainings = missing(plan, results);
  launch::catch_stop_signals();
  PACELINE_ASSIGN_OR_RETURN(const bool whole,
                            train_all(trainings, {plan.file, out, options.jobs, options.quiet}, results));
  const std::size_t trained = trainings.size() - missing(plan, results).size();
  PACELINE_RETURN_IF_ERROR(show(plan, results, options, about_sweep(plan, results, trained, origin)));
  if (whole) return 0;
  launch::print(stderr, fmt::format("stopped; go on with: paceline sweep {}\n", shell_word(options.file)));
  return launch::exit_of_stop();
}

}  // namespace paceline::cli
