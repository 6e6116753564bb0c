#include "paceline/coordinator_process/coordinator_role.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "paceline/base/event_loop.h"
#include "paceline/base/listening_socket.h"
#include "paceline/base/resident_memory.h"
#include "paceline/base/status_macros.h"
#include "paceline/config/job_config.h"
#include "paceline/coordinator_process/coordinator.h"
#include "paceline/coordinator_process/coordinator_server.h"
#include "paceline/peer/grpc_log.h"
#include "paceline/peer/refused_log.h"
#include "paceline/report/terminal_text.h"
#include "paceline/rpc/link_keys.h"
#include "paceline/runs/cut_short.h"
#include "paceline/runs/job_file.h"
#include "paceline/runs/journal_first.h"
#include "paceline/runs/leader.h"
#include "paceline/runs/plan_job.h"
#include "paceline/runs/run_checkpoints.h"
#include "paceline/runs/run_recorder.h"
#include "paceline/security/token.h"
#include "paceline/store/run_folder.h"
#include "paceline/store/run_mark.h"
#include "paceline/supervisor/restarts.h"

namespace paceline::coordinator_process {

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kMetricsEvery{1};

void warn(const std::string& line) { spdlog::warn("{}", line); }

absl::Status tell_address(const std::string& address, int fd) {
  const std::string line = address + "\n";
  const auto written = write(fd < 0 ? STDOUT_FILENO : fd, line.data(), line.size());
  if (fd >= 0) close(fd);
  if (written != static_cast<ssize_t>(line.size()))
    return absl::UnavailableError("nobody reads the coordinator's address");
  return absl::OkStatus();
}

// What outlives an attempt at the job: another one follows when a server is lost.
struct Job {
  store::RunPaths paths;
  std::string toml;
  config::JobConfig config;
  rpc::Access access;
  ListeningSocket listening;  // from the first attempt to the last, so that nobody else gets the port
  int address_fd;
  HostRank host;
  std::string reached_at;
  bool told = false;
  std::map<std::string, std::string> given_up{};  // workers, and why
  std::vector<std::string> notes{};               // that people see beside the run

  void note(const std::string& line) {
    spdlog::info("{}", line);
    notes.push_back(line);
  }
};

absl::Status tell_others(const Job& job) {
  const std::string& address = job.listening.address;
  if (job.reached_at.empty()) return runs::write_leader(job.paths, {job.host.value(), address});
  const std::string port = address.substr(address.rfind(':'));
  return runs::write_leader(job.paths, {job.host.value(), job.reached_at + port});
}

struct Ended {
  absl::Status status;
  bool can_go_on = false;
  std::vector<HostRank> lost_hosts{};
  std::optional<std::int64_t> lost_commits{};  // that are to be done again; nothing: it did not train
};

// Of what anybody may have seen, what is after the checkpoint that the run goes on from.
std::int64_t lost_commits(const Job& job, Version seen) {
  const std::int64_t kept = runs::newest_checkpoint(job.paths).value_or(Version(0)).value();
  return std::max<std::int64_t>(0, seen.value() - kept);
}

// For servers, which may have been at another run.
std::string name_of(const Job& job, std::int64_t attempt) {
  std::error_code error;
  return fmt::format("{} {}", std::filesystem::canonical(job.paths.root, error).filename().string(), attempt);
}

absl::StatusOr<std::optional<coordinator::CutShort>> cut_short(const Job& job,
                                                               const runs::RunRecorder& recorder,
                                                               Version from) {
  PACELINE_ASSIGN_OR_RETURN(const auto newest, recorder.cut_short());
  if (!newest || newest->version <= from) return std::nullopt;
  return coordinator::CutShort{name_of(job, newest->attempt), newest->version};
}

// Each process of the job may come again before the end of its last stream is noticed.
int most_streams(const config::JobConfig& job) {
  constexpr std::int64_t kMore = 64;
  const auto processes = static_cast<std::int64_t>(job.devices.size()) + job.servers + 1;
  return static_cast<int>(2 * processes + kMore);
}

absl::StatusOr<Ended> attempt(Job& job, const store::RunMark& mark,
                              const std::optional<coordinator::Restart>& restart, bool again,
                              const std::optional<std::vector<HostRank>>& only_look) {
  const Version from = restart ? restart->state.version : Version(0);
  PACELINE_ASSIGN_OR_RETURN(const auto recorder,
                            runs::RunRecorder::open(job.config, job.paths, report::World::kLive, from));
  PACELINE_ASSIGN_OR_RETURN(auto before, cut_short(job, *recorder, from));
  runs::RunCheckpoints checkpoints(job.paths.root, job.config, warn);
  runs::JournalFirst journal_first(
      [&](const control::ControllerState& state) { return recorder->note_saved(state); }, checkpoints);
  EventLoop loop;
  coordinator_process::Coordinator coordinator(
      loop,
      {.attempt = {.job = job.config,
                   .job_toml = job.toml,
                   .restart = restart,
                   .again = again,
                   .host = job.host,
                   .attempt = name_of(job, recorder->attempt()),
                   .cut_short = std::move(before),
                   .given_up = job.given_up,
                   .only_look_without = only_look,
                   .mark_file = job.config.hosts > 1 ? mark.file().string() : "",
                   .mark_text = mark.text(),
                   .new_key = rpc::new_link_key},
       .listeners = {recorder.get()},
       .flush_records = [&] { return recorder->flush(); },
       .checkpoints = &journal_first,
       .on_process = [&](const store::ProcessReport& report) { recorder->note_process(report); },
       .on_data_known = [&](const control::ControllerConfig& config) { recorder->start(config, job.toml); },
       .notice = [](const std::string& line) { spdlog::info("{}", line); },
       .news = [&](const std::string& line) { job.note(line); },
       .nothing_lost = [&] { recorder->note_nothing_lost(); }});
  const coordinator::Attempt& state = coordinator.attempt();
  const auto status = [&](const wire::StatusRequest& request, wire::StatusReply& reply) {
    if (state.started()) reply = recorder->status(coordinator.now(), request.width());
    reply.set_phase(state.phase_in_words());
    reply.set_run(job.paths.root.string());
    reply.set_attempt(recorder->attempt());
    for (const std::string& name : state.missing()) reply.add_missing(name);
    const std::size_t seen = static_cast<std::size_t>(std::max(0, request.notes_seen()));
    for (std::size_t i = seen; i < job.notes.size(); ++i) reply.add_notes(job.notes[i]);
  };
  PACELINE_ASSIGN_OR_RETURN(auto listening, copy_of(job.listening));
  PACELINE_ASSIGN_OR_RETURN(const auto server, coordinator_process::CoordinatorServer::start(
                                                   std::move(listening), loop, coordinator,
                                                   {.access = job.access,
                                                    .status = status,
                                                    .notice = peer::warn_of_refused,
                                                    .most_streams = most_streams(job.config)}));
  gpr_set_log_function(peer::log_of_grpc);
  if (!std::exchange(job.told, true)) {
    PACELINE_RETURN_IF_ERROR(tell_others(job));
    PACELINE_RETURN_IF_ERROR(tell_address(job.listening.address, job.address_fd));
  }
  std::chrono::steady_clock::time_point next_metrics{};
  loop.run(kTick, [&] {
    coordinator.tick();
    peer::say_how_many_more();
    recorder->flush();
    const auto wall = std::chrono::steady_clock::now();
    if (state.started() && wall >= next_metrics) {
      next_metrics = wall + kMetricsEvery;
      recorder->add_metrics(coordinator.now());
      recorder->note_process({coordinator.now(), "coordinator", resident_bytes()});
    }
    if (!recorder->trouble().ok()) coordinator.fail(recorder->trouble());
  });
  job.given_up.insert(state.wrong_workers().begin(), state.wrong_workers().end());
  const bool can_go_on = state.can_go_on();
  const std::int64_t lost = can_go_on ? lost_commits(job, state.seen()) : 0;
  // What servers may still have when they come again is not lost yet.
  if (can_go_on && (lost == 0 || job.config.copies == 1)) recorder->note_lost_commits(lost);
  if (can_go_on) recorder->note_went_back(std::string(state.result().message()));
  const absl::Status written = recorder->flush();
  return Ended{state.result().ok() ? written : state.result(), can_go_on && written.ok(), state.lost_hosts(),
               state.started() ? std::optional(lost) : std::nullopt};
}

absl::StatusOr<rpc::Access> access_of(const config::Reach& reach, const store::RunPaths& paths) {
  rpc::Access access;
  if (!reach.certs.empty()) {
    PACELINE_ASSIGN_OR_RETURN(access.credentials,
                              security::read_credentials(reach.certs, security::Role::kCoordinator));
  }
  PACELINE_ASSIGN_OR_RETURN(access.token, reach.token_file.empty()
                                              ? security::read_or_make_token(paths.token())
                                              : security::read_token(reach.token_file));
  return access;
}

// How this process is reached, where that is said beside the job: the same rules hold for it.
std::vector<std::string> said_of_reach(const CoordinatorRoleOptions& options) {
  std::vector<std::string> sets;
  if (!options.listen.empty()) sets.push_back("network.listen=" + options.listen);
  if (!options.certs.empty()) sets.push_back("network.certs=" + options.certs);
  if (!options.token_file.empty()) sets.push_back("network.token_file=" + options.token_file);
  return sets;
}

absl::StatusOr<Job> read(const CoordinatorRoleOptions& options, const store::RunPaths& paths) {
  PACELINE_ASSIGN_OR_RETURN(const std::string toml, runs::read_recorded_job(paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(toml, paths.job(), said_of_reach(options)));
  if (options.new_token && job.reach.token_file.empty())
    PACELINE_RETURN_IF_ERROR(security::replace_token(paths.token()).status());
  PACELINE_ASSIGN_OR_RETURN(rpc::Access access, access_of(job.reach, paths));
  PACELINE_ASSIGN_OR_RETURN(ListeningSocket listening,
                            options.listen_fd < 0 ? rpc::listen_for_job(job.reach.listen)
                                                  : inherited_socket(options.listen_fd, job.reach.listen));
  return Job{paths,
             toml,
             job,
             std::move(access),
             std::move(listening),
             options.address_fd,
             HostRank(options.host),
             options.reached_at};
}

// A run that goes back does so with the plan that it had last.
absl::Status take_last_plan(Job& job) {
  PACELINE_ASSIGN_OR_RETURN(const auto sets, runs::last_plan(job.config, job.paths));
  if (sets.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(job.toml, config::resolve_job(job.toml, job.paths.job(), sets));
  PACELINE_ASSIGN_OR_RETURN(job.config, config::parse_job(job.toml, job.paths.job()));
  return absl::OkStatus();
}

// All that the job does without, in order.
std::vector<HostRank> left_out_with(const config::JobConfig& job, const std::vector<HostRank>& hosts) {
  std::set<HostRank> all(job.without.begin(), job.without.end());
  all.insert(hosts.begin(), hosts.end());
  return {all.begin(), all.end()};
}

// What the planner had made of all devices it makes anew of those that are left.
absl::Status leave_out(Job& job, const std::vector<HostRank>& hosts) {
  if (hosts.empty()) return absl::OkStatus();
  std::vector<std::string> sets{
      fmt::format("cluster.without=[{}]", fmt::join(left_out_with(job.config, hosts), ","))};
  if (job.config.parallel.by_planner()) sets.emplace_back("pipeline=[]");
  PACELINE_ASSIGN_OR_RETURN(const std::string left, config::resolve_job(job.toml, job.paths.job(), sets));
  PACELINE_ASSIGN_OR_RETURN(const runs::PlannedJob planned, runs::plan_job(left, config::RunTime::kWall));
  if (!planned.line.empty()) job.note(planned.line);
  job.toml = planned.job_toml;
  PACELINE_ASSIGN_OR_RETURN(job.config, config::parse_job(job.toml, job.paths.job()));
  return absl::OkStatus();
}

// What is lost, in words.
std::string in_words(const Job& job, const std::optional<std::int64_t>& lost_commits) {
  if (!lost_commits) return "";
  const bool may_be_held = *lost_commits > 0 && job.config.copies > 1;
  return fmt::format(", {} lost{}", report::counted(*lost_commits, "commit"),
                     may_be_held ? " unless servers still have them" : "");
}

// Whether servers may still have something in other parts than those that they would have without `hosts`:
// then it is looked for with these hosts left out instead.
absl::StatusOr<std::optional<std::vector<HostRank>>> left_out_before(const Job& job, runs::GoOn go_on,
                                                                     const std::vector<HostRank>& hosts) {
  if (job.config.copies == 1 || go_on != runs::GoOn::kIfThereIsACheckpoint) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const auto before, runs::cut_short_attempt(job.paths));
  const Version saved = runs::newest_checkpoint(job.paths).value_or(Version(0));
  if (!before || before->newest <= saved || before->without == left_out_with(job.config, hosts))
    return std::nullopt;
  return before->without;
}

bool is_in_job(const config::JobConfig& job, HostRank host) {
  return job.ranks.empty() || std::find(job.ranks.begin(), job.ranks.end(), host) != job.ranks.end();
}

// Attempt after attempt, until the run is over or cannot go on.
absl::Status train(Job& job, const store::RunMark& mark, const CoordinatorRoleOptions& options) {
  std::vector<HostRank> gone;
  if (options.without) gone.emplace_back(*options.without);
  PACELINE_ASSIGN_OR_RETURN(auto before, left_out_before(job, options.go_on, gone));
  const std::string whole_job = job.toml;
  PACELINE_RETURN_IF_ERROR(leave_out(job, before ? *before : gone));
  if (!is_in_job(job.config, job.host)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: cluster.without: host {} has the coordinator: no run goes on without it",
                    job.paths.job().string(), job.host));
  }
  runs::GoOn go_on = options.go_on;
  supervisor::Restarts restarts;
  while (true) {
    if (go_on != runs::GoOn::kNo) PACELINE_RETURN_IF_ERROR(take_last_plan(job));
    PACELINE_ASSIGN_OR_RETURN(
        const auto restart,
        runs::find_restart(job.paths, go_on, [&](const std::string& line) { job.note(line); }));
    PACELINE_ASSIGN_OR_RETURN(const Ended ended,
                              attempt(job, mark, restart, go_on == runs::GoOn::kIfThereIsACheckpoint,
                                      before ? std::optional(gone) : std::nullopt));
    if (!ended.can_go_on) return ended.status;
    if (job.config.hosts > 1) PACELINE_RETURN_IF_ERROR(mark.still_leads());
    if (std::exchange(before, std::nullopt)) {
      job.toml = whole_job;
      PACELINE_ASSIGN_OR_RETURN(job.config, config::parse_job(job.toml, job.paths.job()));
      PACELINE_RETURN_IF_ERROR(leave_out(job, gone));
    }
    PACELINE_RETURN_IF_ERROR(leave_out(job, ended.lost_hosts));
    const std::string why(ended.status.message());
    // Certificates may have been renewed since, or have expired: then nobody who was lost comes back.
    auto access = access_of(job.config.reach, job.paths);
    if (!access.ok())
      return absl::FailedPreconditionError(
          fmt::format("{}; {}", why, std::string(access.status().message())));
    job.access = *std::move(access);
    const auto newest = runs::newest_checkpoint(job.paths);
    if (!restarts.again(newest)) {
      return absl::UnavailableError(fmt::format("{}, for the {}th time without a new checkpoint", why,
                                                supervisor::Restarts::kMost + 1));
    }
    job.note(fmt::format("{}; going on from {}{}", why,
                         newest ? fmt::format("the checkpoint of version {}", *newest) : "the start",
                         in_words(job, ended.lost_commits)));
    go_on = runs::GoOn::kIfThereIsACheckpoint;
  }
}

}  // namespace

absl::Status run_coordinator(const CoordinatorRoleOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunFolder folder, store::RunFolder::resume(options.run));
  PACELINE_ASSIGN_OR_RETURN(Job job, read(options, folder.paths()));
  // Left when this process is killed: then nobody has ended it.
  PACELINE_ASSIGN_OR_RETURN(store::RunMark mark, store::RunMark::leave(job.paths));
  const absl::Status status = train(job, mark, options);
  // Nor has one that could not take the run up: another host may.
  if (mark.was_cut_short() && !job.told) mark.keep();
  return status;
}

}  // namespace paceline::coordinator_process
