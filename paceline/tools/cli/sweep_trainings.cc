#include "paceline/tools/cli/sweep_trainings.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/run_report.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

void clear_away(const fs::path& folder) {
  std::error_code ignored;  // the rest of an unfinished training does no harm: nothing reads it
  fs::remove_all(folder, ignored);
}

// Threads that take one training after the other.
class Trainings {
 public:
  Trainings(const std::vector<const Training*>& list, const SweepPlace& place, SweepResults& results)
      : list_(list), place_(place), results_(results) {}

  absl::StatusOr<bool> run() {
    {
      std::vector<std::jthread> threads;
      const auto count = std::min(static_cast<std::size_t>(place_.jobs), list_.size());
      for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { take_all(); });
    }
    PACELINE_RETURN_IF_ERROR(trouble_);
    return !stopped_;
  }

 private:
  void take_all() {
    while (const Training* training = next()) end(*training, train_one(*training));
  }

  // Null when there is none left, or no reason to go on.
  const Training* next() {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped_ || launch::stop_signals() > 0;
    if (stopped_ || !trouble_.ok() || started_ == list_.size()) return nullptr;
    const Training* training = list_[started_++];
    if (!place_.quiet)
      launch::print(stderr,
                    fmt::format("{} of {}: {}{}\n", started_, list_.size(), training->label, time_left()));
    return training;
  }

  std::string time_left() const {
    if (ended_ == 0) return {};
    const double so_far = std::chrono::duration<double>(steady_clock::now() - start_).count();
    const double left = so_far / static_cast<double>(ended_) * static_cast<double>(list_.size() - ended_);
    return fmt::format("  ({} so far, about {} left)", report::short_duration(so_far),
                       report::short_duration(left));
  }

  // Nothing when the user stopped it.
  absl::StatusOr<std::optional<report::SweepResult>> train_one(const Training& training) const {
    const fs::path folder = place_.out / training.name;
    clear_away(folder);
    PACELINE_ASSIGN_OR_RETURN(const std::string source, absolute_source(training.job.data.source));
    std::vector<std::string> sets = {"runs_dir=" + config::in_quotes(folder.string()),
                                     "data.source=" + source};
    if (!training.layers.empty()) sets.push_back(training.layers);
    PACELINE_ASSIGN_OR_RETURN(const std::string own, config::resolve_job(training.text, "job.toml", sets));
    TrainOptions options;
    options.in_virtual_time = true;
    options.names_folder = false;
    options.data_note = training.data_note;
    // Several lines that change in place would overwrite each other.
    if (place_.jobs > 1 || place_.quiet) options.shown = launch::Shown::kNothing;
    const auto start = steady_clock::now();
    const absl::StatusOr<TrainedRun> run = train(own, options);
    if (run.ok() && !run->after.ok()) return run->after;
    const std::chrono::duration<double> wall = steady_clock::now() - start;
    if (run.ok() ? run->interrupted : absl::IsCancelled(run.status())) {
      clear_away(folder);
      return std::nullopt;
    }
    if (!run.ok() && !absl::IsOutOfRange(run.status())) return run.status();
    const std::string trained = run.ok() ? run->folder : fs::directory_iterator(folder)->path().string();
    PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(trained));
    // Some sweeps want to find trainings that diverge, so that is a result.
    if (!run.ok() && !report.summary.run.diverged) return run.status();
    PACELINE_RETURN_IF_ERROR(runs::write_report(trained, report));
    return report::sweep_result(report.summary, wall.count());
  }

  void end(const Training& training, const absl::StatusOr<std::optional<report::SweepResult>>& result) {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (!result.ok()) {
      trouble_.Update(about_training(training, place_.file, result.status()));
    } else if (!*result) {
      stopped_ = true;
    } else {
      trouble_.Update(results_.add(training.name, training.axes, training.inputs, **result));
    }
  }

  const std::vector<const Training*>& list_;
  const SweepPlace& place_;
  const steady_clock::time_point start_ = steady_clock::now();
  std::mutex mutex_;  // guards the members below
  SweepResults& results_;
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  bool stopped_ = false;
  absl::Status trouble_;
};

}  // namespace

absl::Status about_training(const Training& training, const std::string& file, const absl::Status& status) {
  return runs::about_file(fmt::format("{}: {}", file, training.label), status);
}

absl::StatusOr<bool> train_all(const std::vector<const Training*>& trainings, const SweepPlace& place,
                               SweepResults& results) {
  return Trainings(trainings, place, results).run();
}

}  // namespace paceline::cli
