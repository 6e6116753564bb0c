#include "paceline/cli/sweep_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/cli/job_file.h"
#include "paceline/cli/run_report.h"
#include "paceline/cli/stop_signals.h"
#include "paceline/cli/sweep_grids.h"
#include "paceline/cli/sweep_results.h"
#include "paceline/cli/train_command.h"
#include "paceline/config/sweep.h"
#include "paceline/report/words.h"
#include "paceline/store/files.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

struct Training {
  config::SweepCell cell;
  std::string label;  // "static-mix, BSP, 1"
  report::Json axes;  // {"scenario": "static-mix", …}
  config::JobConfig job;
  std::string text;  // of the job, as resolved
  std::string name;  // of the job: equal texts have equal names, wherever the results go
};

// A sweep and its trainings, all of them with a job that can be read.
struct Plan {
  config::Sweep sweep;
  std::vector<Training> trainings;
};

absl::Status about(const Training& training, const std::string& file, const absl::Status& status) {
  return {status.code(), fmt::format("{}: {}: {}", file, training.label, std::string(status.message()))};
}

report::Json axes_json(const config::Sweep& sweep, const config::SweepCell& cell) {
  report::Json axes = report::Json::object();
  for (std::size_t i = 0; i < cell.size(); ++i) axes[sweep.axes[i].name] = sweep.axes[i].values[cell[i]].name;
  return axes;
}

absl::Status read_job(const std::string& text, const std::string& file, std::vector<std::string> sets,
                      Training& training) {
  sets.push_back("runs_dir=\"\"");
  PACELINE_ASSIGN_OR_RETURN(training.job, config::parse_job(text, file, sets));
  PACELINE_ASSIGN_OR_RETURN(training.text, config::resolve_job(text, file, sets));
  training.name = fmt::format("{:016x}", text_hash(training.text));
  if (training.job.target) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: evaluate.target: a sweep tells the time to a target; write one", file));
}

absl::StatusOr<Plan> read_plan(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_job_file(file));
  Plan plan;
  PACELINE_ASSIGN_OR_RETURN(plan.sweep, config::parse_sweep(text, file));
  const std::string job_file = fs::path(file).replace_filename(plan.sweep.job).string();
  PACELINE_ASSIGN_OR_RETURN(const std::string job_text, read_job_file(job_file));
  for (const config::SweepCell& cell : config::cells_of(plan.sweep)) {
    Training training{cell, config::name_of(plan.sweep, cell), axes_json(plan.sweep, cell), {}, {}, {}};
    const absl::Status status = read_job(job_text, job_file, config::sets_of(plan.sweep, cell), training);
    if (!status.ok()) return about(training, file, status);
    plan.trainings.push_back(std::move(training));
  }
  return plan;
}

// Those that have no result; of equal jobs the first.
std::vector<const Training*> missing(const Plan& plan, const SweepResults& results) {
  std::set<std::string> seen;
  std::vector<const Training*> list;
  for (const Training& training : plan.trainings) {
    const bool first = seen.insert(training.name).second;
    if (first && results.find(training.name) == nullptr) list.push_back(&training);
  }
  return list;
}

// Reads each data set and builds each model once.
absl::Status check(const std::vector<Training>& trainings, const std::string& file) {
  std::vector<const config::JobConfig*> checked;
  for (const Training& training : trainings) {
    const config::JobConfig& job = training.job;
    const bool known = std::any_of(checked.begin(), checked.end(), [&](const config::JobConfig* other) {
      return other->model == job.model && other->data == job.data;
    });
    if (known) continue;
    const absl::Status status = check_data_and_model(job);
    if (!status.ok()) return about(training, file, status);
    checked.push_back(&job);
  }
  return absl::OkStatus();
}

// Where a training is, and how long it all takes.
class Progress {
 public:
  explicit Progress(std::size_t count) : count_(count) {}

  void starting(const Training& training) {
    std::string times;
    if (started_ > 0) {
      const double so_far = seconds();
      const auto left = static_cast<double>(count_ - started_);
      times = fmt::format("  ({} so far, about {} left)", report::short_duration(so_far),
                          report::short_duration(so_far / static_cast<double>(started_) * left));
    }
    fmt::print(stderr, "{} of {}: {}{}\n", ++started_, count_, training.label, times);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(steady_clock::now() - start_).count(); }

  const std::size_t count_;
  const steady_clock::time_point start_ = steady_clock::now();
  std::size_t started_ = 0;
};

void clear_away(const fs::path& folder) {
  std::error_code ignored;  // what is left of an unfinished training does no harm: nothing reads it
  fs::remove_all(folder, ignored);
}

// False when the user stopped it; then nothing of it is left.
absl::StatusOr<bool> train_one(const Training& training, const fs::path& out, SweepResults& results) {
  const fs::path folder = out / training.name;
  clear_away(folder);
  const std::vector<std::string> sets = {"runs_dir=\"" + folder.string() + "\"",
                                         "data.source=" + absolute_source(training.job.data.source)};
  PACELINE_ASSIGN_OR_RETURN(const std::string own, config::resolve_job(training.text, "job.toml", sets));
  TrainOptions options;
  options.in_virtual_time = true;
  const auto start = steady_clock::now();
  const absl::StatusOr<TrainedRun> run = train(own, options);
  const std::chrono::duration<double> wall = steady_clock::now() - start;
  if (run.ok() ? run->interrupted : absl::IsCancelled(run.status())) {
    clear_away(folder);
    return false;
  }
  PACELINE_RETURN_IF_ERROR(run.status());
  PACELINE_ASSIGN_OR_RETURN(const RunReport report, read_run(run->folder));
  PACELINE_RETURN_IF_ERROR(write_report(run->folder, report));
  PACELINE_RETURN_IF_ERROR(
      results.add(training.name, training.axes, report::sweep_result(report.summary, wall.count())));
  return true;
}

// False when the user stopped it.
absl::StatusOr<bool> train_all(const std::vector<const Training*>& trainings, const std::string& file,
                               const fs::path& out, SweepResults& results) {
  Progress progress(trainings.size());
  for (const Training* training : trainings) {
    if (stop_signals() > 0) return false;
    progress.starting(*training);
    const absl::StatusOr<bool> ended = train_one(*training, out, results);
    if (!ended.ok()) return about(*training, file, ended.status());
    if (!*ended) return false;
  }
  return true;
}

std::string json_of(const Plan& plan, const SweepResults& results) {
  std::vector<report::Json> objects;
  for (const Training& training : plan.trainings) {
    if (const auto* result = results.find(training.name))
      objects.push_back(sweep_line(training.name, training.axes, *result));
  }
  return report::lines(objects);
}

std::string tables_of(const Plan& plan, const SweepResults& results, report::TableStyle style) {
  std::map<config::SweepCell, const report::SweepResult*> by_cell;
  for (const Training& training : plan.trainings) by_cell[training.cell] = results.find(training.name);
  std::string text;
  for (const report::SweepGrid& grid :
       sweep_grids(plan.sweep, [&](const config::SweepCell& cell) { return by_cell.at(cell); }))
    text += (text.empty() ? "" : "\n") + report::sweep_tables(grid, style);
  return text;
}

absl::Status show(const Plan& plan, const SweepResults& results, const SweepOptions& options) {
  if (options.json_file.empty()) {
    const auto style = options.markdown ? report::TableStyle::kMarkdown : report::TableStyle::kText;
    fmt::print("{}", tables_of(plan, results, style));
    return absl::OkStatus();
  }
  const std::string json = json_of(plan, results);
  if (options.json_file != "-") return store::atomic_write(options.json_file, json);
  fmt::print("{}", json);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> sweep_command(const SweepOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const Plan plan, read_plan(options.file));
  PACELINE_RETURN_IF_ERROR(check(plan.trainings, options.file));
  const fs::path out = fs::absolute(plan.sweep.out);
  PACELINE_ASSIGN_OR_RETURN(SweepResults results, SweepResults::open(out));
  const std::vector<const Training*> trainings = missing(plan, results);
  catch_stop_signals();
  PACELINE_ASSIGN_OR_RETURN(const bool whole, train_all(trainings, options.file, out, results));
  PACELINE_RETURN_IF_ERROR(show(plan, results, options));
  if (whole) return 0;
  fmt::print(stderr, "stopped; go on with: paceline sweep {}\n", options.file);
  return exit_of_stop();
}

}  // namespace paceline::cli
