#include "paceline/simulation/virtual_time/virtual_train.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/formats/config/planning.h"
#include "paceline/processes/launch/display.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/journal_first.h"
#include "paceline/processes/runs/run_checkpoints.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/processes/runs/run_recorder.h"
#include "paceline/simulation/sim/job_cluster.h"
#include "paceline/simulation/sim/virtual_cluster.h"
#include "paceline/simulation/virtual_time/virtual_work.h"

namespace paceline::virtual_time {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{100};
// Metrics are written at fixed numbers of samples, so that their bytes do not depend on this machine's speed.
constexpr std::int64_t kMetricsLines = 200;

// The part beside the run: the journal reaches the disk, and a person sees progress.
class Onlooker {
 public:
  Onlooker(runs::RunRecorder& recorder, const sim::VirtualCluster& cluster, launch::Display& display,
           std::int64_t samples)
      : recorder_(recorder), cluster_(cluster), display_(display), samples_(samples) {}

  // Call this after every step.
  void look() {
    const std::int64_t line = cluster_.controller().committed_samples() * kMetricsLines / samples_;
    if (line > metrics_line_) recorder_.add_metrics(cluster_.now());
    metrics_line_ = line;
    const auto wall = steady_clock::now();
    if (wall < next_) return;
    next_ = wall + kLook;
    recorder_.flush();
    display_.show(recorder_.status(cluster_.now(), display_.width()));
  }

 private:
  runs::RunRecorder& recorder_;
  const sim::VirtualCluster& cluster_;
  launch::Display& display_;
  const std::int64_t samples_;  // in which there are kMetricsLines of metrics
  std::int64_t metrics_line_ = 0;
  steady_clock::time_point next_{};
};

absl::Status write_checkpoint(sim::VirtualCluster& cluster, VirtualWork& work) {
  return work.save(cluster.controller().save(), cluster.now().time_since_epoch());
}

// Does what the job wants after SIGUSR1 and SIGUSR2.
class Warnings {
 public:
  Warnings(sim::VirtualCluster& cluster, VirtualWork& work, config::OnSignal on_signal,
           launch::Display& display)
      : cluster_(cluster), work_(work), on_signal_(on_signal), display_(display) {}

  // Call this after every step. Before the first commit there is nothing to write yet.
  absl::Status answer() {
    say_when_written();
    if (wanted_) return absl::OkStatus();
    const int warnings = launch::new_warnings();
    const Version version = cluster_.controller().version();
    const bool writes = on_signal_ == config::OnSignal::kWrite;
    if (warnings == 0 || (writes && version == Version(0))) return absl::OkStatus();
    launch::answer_warnings(warnings);
    if (on_signal_ == config::OnSignal::kStop) launch::take_warning_as_stop();
    if (!writes) return absl::OkStatus();
    PACELINE_RETURN_IF_ERROR(write_checkpoint(cluster_, work_));
    wanted_ = version;
    say_when_written();
    return absl::OkStatus();
  }

 private:
  void say_when_written() {
    if (!wanted_ || work_.saved() < *wanted_) return;
    display_.note(fmt::format("{}: the checkpoint of version {} is written, and training goes on",
                              launch::name_of_warning(), *wanted_));
    wanted_.reset();
  }

  sim::VirtualCluster& cluster_;
  VirtualWork& work_;
  const config::OnSignal on_signal_;
  launch::Display& display_;
  std::optional<Version> wanted_;  // its checkpoint is not written yet
};

// Runs until the end, or until a second signal.
absl::Status run(sim::VirtualCluster& cluster, VirtualWork& work, config::OnSignal on_signal,
                 runs::RunRecorder& recorder, Onlooker& onlooker, launch::Display& display) {
  Warnings warnings(cluster, work, on_signal, display);
  bool stopping = false;
  while (!cluster.over()) {
    const absl::Status status = cluster.step();
    PACELINE_CHECK(!cluster.broken(), "{}", *cluster.broken());
    if (!status.ok() && work.has_diverged()) recorder.note_diverged(message_of(status));
    PACELINE_RETURN_IF_ERROR(status);
    PACELINE_RETURN_IF_ERROR(recorder.trouble());
    onlooker.look();
    PACELINE_RETURN_IF_ERROR(warnings.answer());
    const int signals = launch::stop_signals();
    if (signals > 1) return absl::CancelledError("stopped at once");
    if (signals == 1 && !std::exchange(stopping, true)) {
      display.note("stopping with a checkpoint; once more stops at once");
      cluster.ask_stop("interrupted");
    }
  }
  return absl::OkStatus();
}

void warn(const std::string& line) { launch::print(stderr, line + "\n"); }

}  // namespace

absl::Status train_virtually(const std::string& folder, bool resume, launch::Shown shown,
                             absl::Status& after) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunFolder lock, store::RunFolder::resume(folder));
  const store::RunPaths& paths = lock.paths();
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_recorded_job(paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const auto restart,
                            runs::find_restart(paths, resume ? runs::GoOn::kYes : runs::GoOn::kNo, warn));
  const Version from = restart ? restart->state.version : Version(0);
  PACELINE_ASSIGN_OR_RETURN(const auto recorder,
                            runs::RunRecorder::open(job, paths, report::World::kVirtual, from));
  runs::RunCheckpoints checkpoints(paths.root, job, warn);
  runs::JournalFirst journal_first(
      [&](const control::ControllerState& state) { return recorder->note_saved(state); }, checkpoints);
  sim::VirtualCluster* cluster = nullptr;
  const auto on_evaluated = [&](const control::Evaluated& evaluated) {
    recorder->on_evaluated(evaluated);
    if (job.stop_at_target && control::meets(*job.target, evaluated))
      cluster->ask_stop("the target is reached", control::FinishCause::kTarget);
  };
  PACELINE_ASSIGN_OR_RETURN(
      const auto work, VirtualWork::create(job, paths.root.string(), restart, journal_first, on_evaluated));
  control::ControllerConfig config = config::controller_config(job, work->dataset_size());
  config.data_order = work->data_order();
  if (restart)
    PACELINE_RETURN_IF_ERROR(
        control::Controller(config, policy::make_policy(job.policy)).restore(restart->state));
  recorder->start(config, job_toml, restart ? std::optional(restart->state) : std::nullopt);
  std::unique_ptr<control::Replanner> replanner;
  Duration migration{0};
  if (auto planning = config::replanner_options(job, config::RunTime::kVirtual)) {
    migration = from_seconds(planning->migration_ms / 1000);
    PACELINE_ASSIGN_OR_RETURN(replanner, control::Replanner::create(*std::move(planning)));
  }

  launch::Display display(runs::method_of(job), shown);
  sim::VirtualClusterOptions options{.listeners = {recorder.get()}, .work = work.get()};
  if (restart) {
    options.start = restart->state;
    options.elapsed = restart->elapsed;
  }
  options.replanning = {.replanner = std::move(replanner),
                        .devices = static_cast<std::int32_t>(job.devices.size()),
                        .places =
                            [&](const planner::Plan& plan) {
                              config::JobConfig planned = job;
                              planned.parallel.plan = plan;
                              return sim::cluster_of(planned, work->model_bytes(), work->units()).places;
                            },
                        .migration = migration,
                        .re_planned = [&](const std::string& line) { display.note(line); }};
  sim::VirtualCluster virtual_cluster(sim::cluster_of(job, work->model_bytes(), work->units()), config,
                                      policy::make_policy(job.policy), std::move(options));
  cluster = &virtual_cluster;
  const bool known = config.total_samples != kUnknownTotal;
  Onlooker onlooker(*recorder, virtual_cluster, display, known ? config.total_samples : config.dataset_size);
  PACELINE_RETURN_IF_ERROR(run(virtual_cluster, *work, job.on_signal, *recorder, onlooker, display));
  PACELINE_RETURN_IF_ERROR(write_checkpoint(virtual_cluster, *work));
  if (const auto used = work->used_weights()) recorder->note_used_weights(*used);
  recorder->add_metrics(virtual_cluster.now());  // the last metrics, wherever the end came between two lines
  PACELINE_RETURN_IF_ERROR(recorder->flush());
  if (launch::stop_signals() > 0) return absl::OkStatus();  // programs hear that the job is not done
  if (const absl::Status ended = work->end(); !ended.ok())
    after = absl::Status(ended.code(), fmt::format("{}; nothing of the run is lost", message_of(ended)));
  return absl::OkStatus();
}

}  // namespace paceline::virtual_time
