#include "paceline/tools/cli/export_run.h"
#include "paceline/records/tables/time_table.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/run_report.h"
#include "paceline/records/exports/data_tables.h"
#include "paceline/records/exports/prometheus.h"
#include "paceline/records/exports/tensorboard.h"
#include "paceline/records/exports/trace.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/plausible.h"
#include "paceline/records/store/run_tail.h"
#include "paceline/records/store/whole_run.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/ui/recent.h"
#include "paceline/tools/ui/run_follower.h"
#include "paceline/tools/ui/run_state.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

absl::Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? store::io_error(folder, "made", error.value()) : absl::OkStatus();
}

// The time in seconds since 1970 at which the run's time was 0. A virtual run has no such time: then it is
// the time of the recorded job file, which is written only once.
double began_s(const runs::OpenedRun& run) {
  if (run.last_release) return run.last_release->began_s();
  struct stat status {};
  return ::stat(run.paths.asked().c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

exports::HParams hparams_of(const config::JobConfig& job) {
  double batch = 0;
  for (const config::DeviceConfig& device : job.devices) batch += static_cast<double>(device.batch);
  return {{"policy", policy::to_string(job.policy)},
          {"parallel", config::to_string(job.parallel.mode)},
          {"devices", static_cast<double>(job.devices.size())},
          {"batch", batch},
          {"epochs", job.epochs},
          {"optimizer", ps::traits_of(job.optimizer.kind).name},
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
  store::Plausible plausible(trace);
  PACELINE_RETURN_IF_ERROR(store::replay_whole_run(run.journal, plausible));
  PACELINE_RETURN_IF_ERROR(plausible.status());
  PACELINE_RETURN_IF_ERROR(trace.finish(Time{}));
  PACELINE_RETURN_IF_ERROR(file.commit());
  launch::print(stdout, fmt::format("{}: open it at ui.perfetto.dev, or in chrome://tracing\n", name));
  return absl::OkStatus();
}

namespace {

// How fast replicas are of late, against their own past; null: not known.
report::Json speeds_json(const report::Summary& summary, const ui::Recent& recent) {
  report::Json list = report::Json::array();
  for (const report::ReplicaSummary& one : summary.replicas) {
    const ui::Speed speed = recent.speed(one.replica);
    std::optional<double> ratio;
    if (speed.now && speed.past && *speed.past > 0) ratio = *speed.now / *speed.past;
    list.push_back({{"replica", one.name},
                    {"samples_per_s", report::json_number(speed.now)},
                    {"past_samples_per_s", report::json_number(speed.past)},
                    {"ratio", report::json_number(ratio)}});
  }
  return list;
}

}  // namespace

absl::Status export_tables(const std::string& run, const std::string& name) {
  ui::Recent recent;
  PACELINE_ASSIGN_OR_RETURN(runs::RunReport report, runs::read_run(run, &recent));
  report.document["speeds"] = speeds_json(report.summary, recent);
  const fs::path folder = name;
  PACELINE_RETURN_IF_ERROR(make_folder(folder));
  const std::vector<exports::DataTable> tables = exports::data_tables(report.document);
  for (const exports::DataTable& table : tables) {
    PACELINE_RETURN_IF_ERROR(store::atomic_write(folder / (table.name + ".csv"), exports::to_csv(table)));
    PACELINE_RETURN_IF_ERROR(
        store::atomic_write(folder / (table.name + ".jsonl"), exports::to_json_lines(table)));
  }
  launch::print(stdout, fmt::format("{}: {} tables, each as CSV and as JSON lines\n", name, tables.size()));
  return absl::OkStatus();
}

absl::Status export_tensorboard(const std::string& folder, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(runs::RunReport report, runs::read_run(folder));
  runs::OpenedRun& run = report.run;
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_recorded_job(run.paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, run.paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const fs::path root, store::absolute_path(run.paths.root));
  const fs::path own = fs::path(name) / root.lexically_normal().filename();
  PACELINE_RETURN_IF_ERROR(make_folder(own));
  const double began = began_s(run);
  PACELINE_ASSIGN_OR_RETURN(
      store::AtomicFile file,
      store::AtomicFile::create(own / fmt::format("events.out.tfevents.{:.0f}.paceline", began)));
  exports::TensorBoard board(run.info, began, job_toml, hparams_of(job), write_to(file));
  PACELINE_RETURN_IF_ERROR(store::replay_whole_run(run.journal, board));
  PACELINE_RETURN_IF_ERROR(
      board.finish(report.summary, report::what_holds_back(report.time, report.summary.run.policy)));
  PACELINE_RETURN_IF_ERROR(file.commit());
  launch::print(stdout, fmt::format("{}: tensorboard --logdir {}\n", own.string(), name));
  return absl::OkStatus();
}

namespace {

constexpr std::chrono::seconds kFollowEvery{1};
constexpr char kEvents[] = "events.out.tfevents.";
// A run that has not begun, or goes back, has no leader for a moment.
constexpr int kLooksWithoutLeader = 5;

// An event file that grows.
class Growing {
 public:
  Growing(store::RunPaths run, fs::path folder)
      : run_(std::move(run)), folder_(std::move(folder)), tail_(run_.journal()) {}

  absl::Status look() {
    const auto anew = [this](store::JournalReader&) {
      auto begun = begin();
      begun_ = begun.status();
      return begun;
    };
    do {  // in pieces, each of which keeps the journal open for a short time only
      const absl::Status read = tail_.read(anew, ui::RunFollower::kPiece);
      if (!error_.ok()) return error_;
      if (!board_ || !read.ok()) return absl::OkStatus();
      PACELINE_RETURN_IF_ERROR(board_->flush());
    } while (tail_.is_behind());
    for (const fs::path& earlier : std::exchange(earlier_, {})) empty(earlier);
    return absl::OkStatus();
  }
  absl::Status finish() {
    if (!board_) return begun_;
    PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(run_.root.string()));
    return board_->finish(report.summary, report::what_holds_back(report.time, report.summary.run.policy));
  }

 private:
  absl::StatusOr<control::RunListener*> begin() {
    board_.reset();
    PACELINE_ASSIGN_OR_RETURN(const runs::OpenedRun run, runs::open_run(run_.root.string()));
    PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_recorded_job(run_));
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, run_.job()));
    const double began = began_s(run);
    PACELINE_RETURN_IF_ERROR(make_file(began));
    board_.emplace(run.info, began, job_toml, hparams_of(job), [this](std::string_view piece) {
      error_.Update(store::write_all(open_, file_, piece.data(), piece.size()));
      return error_;
    });
    return &*board_;
  }

  // The next one of the run: TensorBoard goes on from file to file by their names.
  absl::Status make_file(double began) {
    constexpr int kMostFiles = 9999;
    earlier_ = files();
    // The clock of a host that leads later may be behind.
    for (const fs::path& one : earlier_) began = std::max(began, began_in(one.filename().string()));
    for (int number = 1; number <= kMostFiles; ++number) {
      file_ = folder_ / fmt::format("{}{:.0f}.paceline.{:04}", kEvents, began, number);
      open_ = FileDescriptor(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (open_.get() >= 0) {
        ::flock(open_.get(), LOCK_EX | LOCK_NB);  // only tells others that somebody writes it
        return absl::OkStatus();
      }
      if (errno != EEXIST) return store::io_error(file_, "made", errno);
    }
    return absl::ResourceExhaustedError(
        fmt::format("{}: has too many event files of this run", folder_.string()));
  }

  static double began_in(const std::string& name) {
    double began = 0;
    const std::string number = name.substr(std::min(name.size(), std::string_view(kEvents).size()));
    std::from_chars(number.data(), number.data() + number.find('.'), began);
    return began;
  }

  // The run's event files that grew, by their names.
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    std::error_code error;
    for (auto one = fs::directory_iterator(folder_, error); !error && one != fs::directory_iterator();
         one.increment(error)) {
      const std::string name = one->path().filename().string();
      if (name.starts_with(kEvents) && name.find(".paceline.") != std::string::npos)
        all.push_back(one->path());
    }
    return all;
  }

  // An earlier file has nothing that the new one has not. It keeps its name, from which an open TensorBoard goes on to the
  // next. A file that another process writes stays.
  static void empty(const fs::path& file) {
    const FileDescriptor open(::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    if (open.valid() && ::flock(open.get(), LOCK_EX | LOCK_NB) == 0 && ::ftruncate(open.get(), 0) != 0)
      return;
  }

  const store::RunPaths run_;
  const fs::path folder_;
  store::RunTail tail_;
  std::vector<fs::path> earlier_;  // not emptied yet
  fs::path file_;
  FileDescriptor open_;
  absl::Status begun_;  // the outcome of the newest begin()
  absl::Status error_;  // an error of writing
  std::optional<exports::TensorBoard> board_;
};

}  // namespace

absl::Status follow_tensorboard(const std::string& folder, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const fs::path root, store::absolute_path(folder));
  const store::RunPaths run{root.lexically_normal()};
  const fs::path own = fs::path(name) / run.root.filename();
  PACELINE_RETURN_IF_ERROR(make_folder(own));
  Growing events(run, own);
  for (int without = 0; without < kLooksWithoutLeader;) {
    PACELINE_RETURN_IF_ERROR(events.look());
    const ui::StateOfRun state = ui::state_of(run);
    // A run that finished or was stopped has recorded it.
    if (state.state == ui::RunState::kFinished || state.state == ui::RunState::kStopped) break;
    without = state.led() ? 0 : without + 1;
    std::this_thread::sleep_for(kFollowEvery);
  }
  PACELINE_RETURN_IF_ERROR(events.look());
  return events.finish();
}

absl::Status export_prometheus(const std::string& folder, const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(folder));
  std::optional<double> committed;
  if (report.run.last_release && !report.history.training.empty())
    committed = report.run.last_release->began_s() + to_seconds(report.history.training.back().at);
  return write_output(file,
                      exports::prometheus_text(report.summary, report.history, report.settled, committed));
}

}  // namespace paceline::cli
