#include "paceline/cli/coordinator_role.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/event_loop.h"
#include "paceline/base/status_macros.h"
#include "paceline/cli/books.h"
#include "paceline/cli/job_file.h"
#include "paceline/cli/journal_first.h"
#include "paceline/cli/run_checkpoints.h"
#include "paceline/config/job_config.h"
#include "paceline/rpc/coordinator.h"
#include "paceline/rpc/coordinator_server.h"
#include "paceline/store/run_folder.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kMetricsEvery{1};

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
  PACELINE_ASSIGN_OR_RETURN(const auto books, Books::open(job, paths, report::World::kLive, from));
  RunCheckpoints checkpoints(paths.root, job);
  JournalFirst journal_first([&] { return books->flush(); }, checkpoints);
  EventLoop loop;
  std::vector<std::string> notes;  // that people see beside the run
  rpc::Coordinator coordinator(
      loop,
      {.job = job,
       .job_toml = job_toml,
       .restart = restart,
       .listeners = {books.get()},
       .checkpoints = &journal_first,
       .on_data_known = [&](const control::ControllerConfig& config) { books->start(config, job_toml); },
       .notice = [](const std::string& line) { spdlog::info("{}", line); },
       .re_planned =
           [&](const std::string& line) {
             spdlog::info("{}", line);
             notes.push_back(line);
           }});
  const auto status = [&](const rpc::wire::StatusRequest& request, rpc::wire::StatusReply& reply) {
    if (coordinator.training()) reply = books->status(coordinator.now(), request.width());
    reply.set_phase(coordinator.phase());
    const std::size_t seen = static_cast<std::size_t>(std::max(0, request.notes_seen()));
    for (std::size_t i = seen; i < notes.size(); ++i) reply.add_notes(notes[i]);
  };
  PACELINE_ASSIGN_OR_RETURN(const auto server,
                            rpc::CoordinatorServer::start(job.reach.listen, loop, coordinator, status));
  PACELINE_RETURN_IF_ERROR(tell_address(server->address(), options.address_fd));
  std::chrono::steady_clock::time_point next_metrics{};
  loop.run(kTick, [&] {
    coordinator.tick();
    books->flush();
    const auto wall = std::chrono::steady_clock::now();
    if (coordinator.training() && wall >= next_metrics) {
      next_metrics = wall + kMetricsEvery;
      books->add_metrics(coordinator.now());
    }
    if (!books->trouble().ok()) coordinator.fail(books->trouble());
  });
  const absl::Status written = books->flush();
  PACELINE_RETURN_IF_ERROR(coordinator.result());
  return written;
}

}  // namespace paceline::cli
