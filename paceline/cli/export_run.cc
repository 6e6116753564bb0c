#include "paceline/cli/export_run.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/output.h"
#include "paceline/config/job_config.h"
#include "paceline/exports/data_tables.h"
#include "paceline/exports/prometheus.h"
#include "paceline/exports/tensorboard.h"
#include "paceline/exports/trace.h"
#include "paceline/launch/say.h"
#include "paceline/runs/job_file.h"
#include "paceline/runs/run_report.h"
#include "paceline/store/files.h"
#include "paceline/store/whole_run.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

absl::Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? store::io_error(folder, "made", error.value()) : absl::OkStatus();
}

// Journals do not say when a run was made; its files do.
double made_s(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

std::string kind_of(const config::JobConfig& job) {
  static constexpr std::array kKinds{"sgd",  "adam", "adamw", "nesterov", "rmsprop",
                                     "lion", "lars", "lamb",  "adafactor"};
  const auto kind = static_cast<std::size_t>(job.optimizer.kind);
  return kind < kKinds.size() ? kKinds[kind] : "other";
}

exports::HParams hparams_of(const config::JobConfig& job) {
  double batch = 0;
  for (const config::ReplicaConfig& device : job.replicas) batch += static_cast<double>(device.batch);
  return {{"policy", policy::to_string(job.policy)},
          {"parallel", config::to_string(job.parallel.mode)},
          {"devices", static_cast<double>(job.replicas.size())},
          {"batch", batch},
          {"epochs", job.epochs},
          {"optimizer", kind_of(job)},
          {"learning_rate", job.learning_rate},
          {"look_ahead", job.look_ahead},
          {"seed", static_cast<double>(job.seed)}};
}

exports::Write write_to(store::AtomicFile& file) {
  return [&file](std::string_view piece) { return file.write(piece.data(), piece.size()); };
}

}  // namespace

absl::Status export_trace(const std::string& folder, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const fs::path target, behind_links(name));
  PACELINE_ASSIGN_OR_RETURN(runs::OpenedRun run, runs::open_run(folder));
  PACELINE_ASSIGN_OR_RETURN(store::AtomicFile file, store::AtomicFile::create(target));
  exports::Trace trace(run.info, write_to(file));
  PACELINE_RETURN_IF_ERROR(store::replay_whole_run(run.journal, trace));
  PACELINE_RETURN_IF_ERROR(trace.finish(Time{}));
  PACELINE_RETURN_IF_ERROR(file.commit());
  launch::say(stdout, fmt::format("{}: open it at ui.perfetto.dev, or in chrome://tracing\n", name));
  return absl::OkStatus();
}

absl::Status export_tables(const std::string& run, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(run));
  const fs::path folder = name;
  PACELINE_RETURN_IF_ERROR(make_folder(folder));
  const std::vector<exports::DataTable> tables = exports::data_tables(report.document);
  for (const exports::DataTable& table : tables) {
    PACELINE_RETURN_IF_ERROR(store::atomic_write(folder / (table.name + ".csv"), exports::to_csv(table)));
    PACELINE_RETURN_IF_ERROR(
        store::atomic_write(folder / (table.name + ".jsonl"), exports::to_json_lines(table)));
  }
  launch::say(stdout, fmt::format("{}: {} tables, each as CSV and as JSON lines\n", name, tables.size()));
  return absl::OkStatus();
}

absl::Status export_tensorboard(const std::string& folder, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(runs::RunReport report, runs::read_run(folder));
  runs::OpenedRun& run = report.run;
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_job_file(run.paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, run.paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const fs::path root, store::absolute_path(run.paths.root));
  const fs::path own = fs::path(name) / root.lexically_normal().filename();
  PACELINE_RETURN_IF_ERROR(make_folder(own));
  const double made = made_s(run.paths.job());
  PACELINE_ASSIGN_OR_RETURN(
      store::AtomicFile file,
      store::AtomicFile::create(own / fmt::format("events.out.tfevents.{:.0f}.paceline", made)));
  exports::TensorBoard board(run.info, made, job_toml, hparams_of(job), write_to(file));
  PACELINE_RETURN_IF_ERROR(store::replay_whole_run(run.journal, board));
  PACELINE_RETURN_IF_ERROR(
      board.finish(report.summary, report::what_holds_back(report.time, report.summary.run.policy)));
  PACELINE_RETURN_IF_ERROR(file.commit());
  launch::say(stdout, fmt::format("{}: tensorboard --logdir {}\n", own.string(), name));
  return absl::OkStatus();
}

absl::Status export_prometheus(const std::string& folder, const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(folder));
  return write_output(file, exports::prometheus_text(report.summary, report.history, report.settled,
                                                     made_s(report.run.paths.job())));
}

}  // namespace paceline::cli
