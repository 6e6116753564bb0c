#include "paceline/cli/coordinator_role.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/event_loop.h"
#include "paceline/base/status_macros.h"
#include "paceline/cli/job_file.h"
#include "paceline/cli/journal_first.h"
#include "paceline/cli/run_info.h"
#include "paceline/config/job_config.h"
#include "paceline/report/metrics.h"
#include "paceline/report/progress_line.h"
#include "paceline/report/run_stats.h"
#include "paceline/rpc/coordinator.h"
#include "paceline/rpc/coordinator_server.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/journal.h"
#include "paceline/store/line_file.h"
#include "paceline/store/run_folder.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kMetricsEvery{1};

// The books of a run: its journal, its metrics, and the statistics people watch.
class Books final : public control::RunListener {
 public:
  Books(const config::JobConfig& job, std::unique_ptr<store::Journal> journal, store::LineFile metrics)
      : job_(job), journal_(std::move(journal)), metrics_(std::move(metrics)) {}

  void start(const control::ControllerConfig& config) {
    stats_.emplace(run_info(job_, config.total_samples));
    note(journal_->set(kTotalSamplesKey, std::to_string(config.total_samples)));
  }
  void on_fact(const control::Fact& fact) override {
    journal_->on_fact(fact);
    stats_->on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override {
    journal_->on_order(at, order);
    stats_->on_order(at, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override {
    journal_->on_evaluated(evaluated);
    stats_->on_evaluated(evaluated);
    note(metrics_.append_line(report::metrics_line(evaluated)));
  }

  // Makes the journal last.
  void flush() { note(journal_->flush()); }
  void tick(Time now) {
    flush();
    const auto clock = std::chrono::steady_clock::now();
    if (!stats_ || clock < next_metrics_) return;
    next_metrics_ = clock + kMetricsEvery;
    note(metrics_.append_line(report::metrics_line(stats_->summary(now))));
  }
  void status(Time now, int width, rpc::wire::StatusReply& reply) const {
    if (!stats_) return;
    const report::Summary summary = stats_->summary(now);
    reply.set_line(report::progress_line(summary, width));
    reply.set_json(report::metrics_line(summary));
  }
  // The first thing that could not be written.
  const absl::Status& trouble() const { return trouble_; }

 private:
  void note(const absl::Status& status) { trouble_.Update(status); }

  const config::JobConfig& job_;
  std::unique_ptr<store::Journal> journal_;
  store::LineFile metrics_;
  std::optional<report::RunStats> stats_;
  std::chrono::steady_clock::time_point next_metrics_{};
  absl::Status trouble_;
};

class Checkpoints final : public rpc::CheckpointSink {
 public:
  Checkpoints(std::filesystem::path run, const config::JobConfig& job) : run_(std::move(run)), job_(job) {}

  absl::StatusOr<std::string> begin(Version version) override {
    PACELINE_ASSIGN_OR_RETURN(writer_, store::CheckpointWriter::begin(run_, version));
    return writer_->directory().string();
  }
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override {
    const store::CheckpointState saved{state, elapsed, state.ledger.committed(),
                                       static_cast<int>(job_.servers)};
    return writer_->finish(saved, static_cast<int>(job_.checkpoints_kept)).status();
  }

 private:
  const std::filesystem::path run_;
  const config::JobConfig& job_;
  std::optional<store::CheckpointWriter> writer_;
};

absl::StatusOr<std::optional<rpc::Restart>> find_restart(const store::RunPaths& paths,
                                                         const config::JobConfig& job, bool resume) {
  PACELINE_RETURN_IF_ERROR(store::remove_partial_checkpoints(paths.root));
  if (!resume) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const store::Checkpoint checkpoint, store::latest_checkpoint(paths.root));
  if (checkpoint.state.shards != job.servers) {
    return absl::InvalidArgumentError(
        fmt::format("cluster.servers: the checkpoint {} has {} shards; resume with that many servers",
                    checkpoint.directory.string(), checkpoint.state.shards));
  }
  return rpc::Restart{checkpoint.state.controller, checkpoint.state.elapsed, checkpoint.directory.string()};
}

absl::Status tell_address(const std::string& address, int fd) {
  const std::string line = address + "\n";
  const auto written = write(fd < 0 ? STDOUT_FILENO : fd, line.data(), line.size());
  if (fd >= 0) close(fd);
  if (written != static_cast<ssize_t>(line.size()))
    return absl::UnavailableError("nobody reads the coordinator's address");
  return absl::OkStatus();
}

}  // namespace

absl::Status run_coordinator(const CoordinatorRoleOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunFolder folder, store::RunFolder::resume(options.run));
  const store::RunPaths& paths = folder.paths();
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, read_job_file(paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const auto restart, find_restart(paths, job, options.resume));
  const Version from = restart ? restart->state.version : Version(0);
  PACELINE_ASSIGN_OR_RETURN(auto journal, store::Journal::open(paths.journal(), from));
  PACELINE_ASSIGN_OR_RETURN(auto metrics, store::LineFile::open(paths.metrics()));

  Books books(job, std::move(journal), std::move(metrics));
  Checkpoints checkpoints(paths.root, job);
  const auto flush = [&] {
    books.flush();
    return books.trouble();
  };
  JournalFirst journal_first(flush, checkpoints);
  EventLoop loop;
  rpc::Coordinator coordinator(
      loop, {.job = job,
             .job_toml = job_toml,
             .restart = restart,
             .listeners = {&books},
             .checkpoints = &journal_first,
             .on_data_known = [&](const control::ControllerConfig& config) { books.start(config); },
             .notice = [](const std::string& line) { spdlog::info("{}", line); }});
  const auto status = [&](const rpc::wire::StatusRequest& request, rpc::wire::StatusReply& reply) {
    reply.set_phase(coordinator.phase());
    if (coordinator.training()) books.status(coordinator.now(), request.width(), reply);
  };
  PACELINE_ASSIGN_OR_RETURN(const auto server,
                            rpc::CoordinatorServer::start(job.listen, loop, coordinator, status));
  PACELINE_RETURN_IF_ERROR(tell_address(server->address(), options.address_fd));
  loop.run(kTick, [&] {
    coordinator.tick();
    books.tick(coordinator.now());
    if (!books.trouble().ok()) coordinator.fail(books.trouble());
  });
  books.tick(coordinator.now());
  PACELINE_RETURN_IF_ERROR(coordinator.result());
  return books.trouble();
}

}  // namespace paceline::cli
