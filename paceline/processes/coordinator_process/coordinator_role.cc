#include "paceline/processes/coordinator_process/coordinator_role.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "paceline/base/check.h"
#include "paceline/base/event_loop.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/host_port.h"
#include "paceline/base/listening_socket.h"
#include "paceline/base/resident_memory.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/coordinator/attempts.h"
#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/coordinator_process/coordinator.h"
#include "paceline/processes/coordinator_process/coordinator_server.h"
#include "paceline/processes/coordinator_process/file_calls.h"
#include "paceline/processes/coordinator_process/meanwhile.h"
#include "paceline/processes/coordinator_process/run_keeping.h"
#include "paceline/processes/peer/grpc_log.h"
#include "paceline/processes/peer/refused_log.h"
#include "paceline/processes/rpc/link_keys.h"
#include "paceline/processes/rpc/run_notes.h"
#include "paceline/processes/runs/cut_short.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/journal_first.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/processes/runs/plan_job.h"
#include "paceline/processes/runs/run_checkpoints.h"
#include "paceline/processes/runs/run_recorder.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/run_mark.h"
#include "paceline/records/store/state_text.h"
#include "paceline/transport/security/token.h"

namespace paceline::coordinator_process {

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kMetricsEvery{1};
constexpr std::int32_t kMostLaunchers = 64;  // a job has no more hosts
// A checkpoint that is read within this time is read in silence: other hosts look for another leader after twice as long.
constexpr std::chrono::seconds kReadSoon{1};

void warn(const std::string& line) { spdlog::warn("{}", line); }

absl::Status tell_address(const std::string& address, int fd) {
  const std::string line = address + "\n";
  const auto written = write(fd < 0 ? STDOUT_FILENO : fd, line.data(), line.size());
  if (fd >= 0) close(fd);
  if (written != static_cast<ssize_t>(line.size()))
    return absl::UnavailableError("nobody reads the coordinator's address");
  return absl::OkStatus();
}

// The part of a job that outlives an attempt: another attempt follows when a server is lost.
struct Job {
  store::RunPaths paths;
  std::string toml;
  config::JobConfig config;
  rpc::Access access;
  // kept from the first attempt to the last, so that no other process gets the port
  ListeningSocket listening;
  int address_fd;
  HostRank host;
  std::string reached_at;
  std::string whole_toml;        // the job as it is recorded
  bool one_folder;               // all hosts see the run folder
  bool hosts_start = false;      // see CoordinatorRoleOptions; true in the first attempt only
  bool only_checkpoint = false;  // see there; true in the first attempt only
  bool first = true;             // whether the next attempt is the first one
  bool told = false;
  std::int64_t attempt = 0;  // the number of the last one; 0: none yet
  // the stop that interrupted the last attempt, if one did
  std::optional<coordinator::StopWanted> interrupted{};
  rpc::RunNotes notes{};

  void note(const std::string& line) {
    spdlog::info("{}", line);
    notes.add(line);
  }
};

absl::Status tell_others(const Job& job) {
  const std::string& address = job.listening.address;
  if (job.reached_at.empty()) return runs::write_leader(job.paths, {job.host.value(), address});
  const std::string port = address.substr(address.rfind(':') + 1);
  return runs::write_leader(job.paths, {job.host.value(), host_port(job.reached_at, port)});
}

// The name of an attempt for servers, which may have been at another run.
std::string name_of(const Job& job, std::int64_t attempt) {
  std::error_code error;
  return fmt::format("{} {}", std::filesystem::canonical(job.paths.root, error).filename().string(), attempt);
}

absl::StatusOr<std::optional<coordinator::CutShort>> cut_short(const Job& job,
                                                               const runs::RunRecorder& recorder,
                                                               Version from) {
  PACELINE_ASSIGN_OR_RETURN(const auto newest, recorder.cut_short(from));
  if (!newest) return std::nullopt;
  return coordinator::cut_short_after(coordinator::CutShort{name_of(job, newest->attempt), newest->version},
                                      from);
}

// The next host keeps the run too if hosts share no disk and each shard has two copies.
std::optional<HostRank> keeper_of(const Job& job) {
  if (job.one_folder || job.config.copies == 1) return std::nullopt;
  return coordinator::keeper_of(job.config.ranks, job.host);
}

// Each process of the job may come again before the end of its last stream is noticed.
int most_streams(const config::JobConfig& job) {
  constexpr std::int64_t kMore = 64;
  const auto processes = static_cast<std::int64_t>(job.devices.size()) + job.servers + 1;
  return static_cast<int>(2 * processes + kMore);
}

// Runs one attempt, and returns how it ended.
absl::StatusOr<coordinator::AttemptEnded> attempt(Job& job, const store::RunMark& mark,
                                                  const std::optional<coordinator::Restart>& restart,
                                                  const coordinator::RunAttempt& order) {
  const Version from = restart ? restart->state.version : Version(0);
  const std::optional<HostRank> keeper = keeper_of(job);
  PACELINE_ASSIGN_OR_RETURN(const auto recorder,
                            runs::RunRecorder::open(job.config, job.paths, report::World::kLive, from,
                                                    runs::RunRecorder::system_clock, keeper.has_value()));
  PACELINE_ASSIGN_OR_RETURN(auto before, cut_short(job, *recorder, from));
  if (std::exchange(job.only_checkpoint, false)) before.reset();
  runs::RunCheckpoints checkpoints(job.paths.root, job.config, warn);
  runs::JournalFirst journal_first(
      [&](const control::ControllerState& state) { return recorder->note_saved(state); }, checkpoints);
  RunKeeping keeping({.run = job.paths,
                      .keeper = keeper,
                      .flush = [&] { return recorder->flush(); },
                      .take_log = [&] { return recorder->take_log(); },
                      .news = [&](const std::string& line) { job.note(line); }});
  FileCalls files(job.paths.root, restart, static_cast<int>(job.config.servers), journal_first,
                  [&](const auto& dir, const auto& names) {
                    // the keeper has to get the journal's part about the checkpoint before the checkpoint
                    keeping.look();
                    keeping.counted(dir, names);
                  });
  EventLoop loop;
  coordinator_process::Coordinator coordinator(
      loop,
      {.attempt = {.job = config::coordinator_settings(job.config),
                   .job_toml = job.toml,
                   .run = job.paths.root.filename().string(),
                   .restart = restart,
                   .again = order.again,
                   .hosts_start = std::exchange(job.hosts_start, false),
                   .first = std::exchange(job.first, false),
                   .host = job.host,
                   .attempt = name_of(job, recorder->attempt()),
                   .cut_short = std::move(before),
                   .given_up = order.given_up,
                   .only_look_without = order.only_look_without,
                   .folder_on = job.one_folder ? std::nullopt : std::optional(job.host),
                   .awaits_copy = keeper.has_value() && restart.has_value(),
                   .mark_file = job.config.hosts > 1 && job.one_folder ? mark.file().string() : "",
                   .mark_text = mark.text(),
                   .state_text = store::state_text(),
                   .new_key = rpc::new_link_key},
       .listeners = {recorder.get()},
       .flush_records = [&] { return keeping.flush(); },
       .checkpoints = &files,
       .awaits_copy = [&] { return keeping.awaits_copy(); },
       .on_process = [&](const control::ProcessReport& report) { recorder->note_process(report); },
       .on_shard_lengths =
           [&](const std::vector<coordinator::ShardRecords>& lengths) {
             recorder->note_shard_lengths(lengths);
           },
       .on_data_known =
           [&](const coordinator::Begin& begin) { recorder->start(begin.config, job.toml, begin.state); },
       .notice = [](const std::string& line) { spdlog::info("{}", line); },
       .news = [&](const std::string& line) { job.note(line); },
       .nothing_lost = [&] { recorder->note_nothing_lost(); }});
  const coordinator::Attempt& state = coordinator.attempt();
  const auto status = [&](const wire::StatusRequest& request, wire::StatusReply& reply) {
    if (state.started()) reply = recorder->status(coordinator.now(), request.width());
    reply.set_phase(state.phase_in_words());
    reply.set_waits_for(state.waits_for());
    reply.set_run(job.paths.root.string());
    if (request.resident_bytes() > 0 && request.host() >= 0 && request.host() < kMostLaunchers) {
      const std::string launcher =
          job.config.hosts > 1 ? fmt::format("launcher{}", request.host()) : "launcher";
      recorder->note_process({coordinator.now(), launcher, request.resident_bytes()});
    }
    reply.set_attempt(recorder->attempt());
    const coordinator::LeaderIsBack* const back = state.gives_way_to();
    if (back != nullptr || keeper) reply.set_keeper(back != nullptr ? back->host.value() : keeper->value());
    reply.set_next_leader(back != nullptr ? back->address : keeping.next_leader());
    for (const std::string& name : state.missing()) reply.add_missing(name);
    job.notes.answer(request, reply);
  };
  PACELINE_ASSIGN_OR_RETURN(auto listening, copy_of(job.listening));
  PACELINE_ASSIGN_OR_RETURN(const auto server, coordinator_process::CoordinatorServer::start(
                                                   std::move(listening), loop, &coordinator,
                                                   {.access = job.access,
                                                    .status = status,
                                                    .file = [&](auto& call) { return files.serve(call); },
                                                    .keep = [&](auto& call) { return keeping.serve(call); },
                                                    .notice = peer::warn_of_refused,
                                                    .most_streams = most_streams(job.config)}));
  if (!std::exchange(job.told, true)) {
    PACELINE_RETURN_IF_ERROR(tell_others(job));
    PACELINE_RETURN_IF_ERROR(tell_address(job.listening.address, job.address_fd));
  }
  std::chrono::steady_clock::time_point next_metrics{};
  loop.run(kTick, [&] {
    coordinator.tick();
    peer::say_how_many_more();
    recorder->flush();
    keeping.look();
    const auto wall = std::chrono::steady_clock::now();
    if (state.started() && wall >= next_metrics) {
      next_metrics = wall + kMetricsEvery;
      recorder->add_metrics(coordinator.now());
      recorder->note_process({coordinator.now(), "coordinator", resident_bytes()});
    }
    if (!recorder->trouble().ok()) coordinator.fail(recorder->trouble());
  });
  job.interrupted = state.interrupted();
  job.attempt = recorder->attempt();
  // Adds the last metrics, the end of the run among them: the list of runs reads nothing else.
  if (state.started()) recorder->add_metrics(coordinator.now());
  coordinator::AttemptEnded ended{.status = state.result(),
                                  .can_go_on = state.can_go_on(),
                                  .trained = state.started(),
                                  .seen = state.seen(),
                                  .copies = job.config.copies,
                                  .newest = runs::newest_checkpoint(job.paths),
                                  .lost_hosts = state.lost_hosts(),
                                  .wrong_workers = state.wrong_workers()};
  if (!ended.can_go_on && absl::IsOutOfRange(ended.status))
    recorder->note_diverged(std::string(ended.status.message()));
  if (!ended.can_go_on) {
    recorder->flush();
    keeping.over();
  }
  if (ended.can_go_on) {
    if (ended.lost_for_good()) recorder->note_lost_commits(ended.lost_commits());
    recorder->note_went_back(std::string(ended.status.message()));
  }
  const absl::Status written = recorder->flush();
  ended.recorded(written);
  return ended;
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

// The command line's settings of how others reach this process, checked by the rules for a job file.
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
             options.reached_at,
             toml,
             job.hosts == 1 || job.shared_folder || options.shared_folder,
             options.hosts_start,
             options.only_checkpoint};
}

// Makes a plan if `toml` has none.
absl::Status take_job(Job& job, const std::string& toml) {
  PACELINE_ASSIGN_OR_RETURN(const runs::PlannedJob planned, runs::plan_job(toml, config::RunTime::kWall));
  if (!planned.line.empty()) job.note(planned.line);
  job.toml = planned.job_toml;
  PACELINE_ASSIGN_OR_RETURN(job.config, config::parse_job(job.toml, job.paths.job()));
  return absl::OkStatus();
}

// A run that goes back uses the plan that it had last, if the devices have room for it.
absl::Status take_last_plan(Job& job) {
  PACELINE_ASSIGN_OR_RETURN(const auto sets, runs::last_plan(job.config, job.paths));
  if (sets.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::string toml, config::resolve_job(job.toml, job.paths.job(), sets));
  return take_job(job, toml);
}

// A plan of the planner's is made anew for the devices that are left.
absl::Status carry_out(Job& job, const coordinator::LeaveOut& order) {
  std::vector<std::string> sets{fmt::format("cluster.without=[{}]", fmt::join(order.hosts, ","))};
  if (job.config.parallel.by_planner()) sets.emplace_back("pipeline=[]");
  PACELINE_ASSIGN_OR_RETURN(std::string left, config::resolve_job(job.whole_toml, job.paths.job(), sets));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig planned, config::parse_job(left, "job.toml"));
  PACELINE_ASSIGN_OR_RETURN(const auto memory, runs::lowered_memory_settings(planned, job.paths));
  PACELINE_ASSIGN_OR_RETURN(left, config::resolve_job(left, job.paths.job(), memory));
  return take_job(job, left);
}

// Reads all of the checkpoint that the next attempt goes on from. Other hosts hear meanwhile that this one leads the run.
absl::StatusOr<std::optional<coordinator::Restart>> read_checkpoint(Job& job, runs::GoOn go_on) {
  const auto status = [&](const wire::StatusRequest& request, wire::StatusReply& reply) {
    reply.set_phase("starting: the checkpoint is read");
    reply.set_run(job.paths.root.string());
    reply.set_attempt(job.attempt);
    job.notes.answer(request, reply);
  };
  const auto tell = [&] {
    const absl::Status told = tell_others(job);
    if (!told.ok()) warn(message_of(told));
  };
  std::vector<std::string> lines;
  absl::StatusOr<std::optional<coordinator::Restart>> restart;
  answer_meanwhile(job.listening,
                   {.access = job.access,
                    .status = status,
                    .notice = peer::warn_of_refused,
                    .most_streams = most_streams(job.config)},
                   kReadSoon, tell, [&] {
                     restart = runs::find_restart(job.paths, go_on,
                                                  [&](const std::string& line) { lines.push_back(line); });
                   });
  for (const std::string& line : lines) job.note(line);
  return restart;
}

absl::StatusOr<coordinator::AttemptEnded> carry_out(Job& job, const store::RunMark& mark, runs::GoOn go_on,
                                                    const coordinator::RunAttempt& order) {
  if (order.again) go_on = runs::GoOn::kIfThereIsACheckpoint;
  if (go_on != runs::GoOn::kNo) PACELINE_RETURN_IF_ERROR(take_last_plan(job));
  PACELINE_ASSIGN_OR_RETURN(const auto restart, read_checkpoint(job, go_on));
  PACELINE_ASSIGN_OR_RETURN(auto ended, attempt(job, mark, restart, order));
  if (job.config.hosts > 1) ended.leads = mark.still_leads();
  if (!ended.can_go_on || !ended.leads.ok()) return ended;
  auto access = access_of(job.config.reach, job.paths);
  ended.access = access.status();
  if (access.ok()) job.access = *std::move(access);
  return ended;
}

absl::StatusOr<coordinator::FolderBefore> folder_before(const Job& job, runs::GoOn go_on) {
  coordinator::FolderBefore folder{.newest = runs::newest_checkpoint(job.paths)};
  if (go_on != runs::GoOn::kIfThereIsACheckpoint || job.config.copies == 1) return folder;
  PACELINE_ASSIGN_OR_RETURN(folder.cut_short, runs::cut_short_attempt(job.paths));
  return folder;
}

// Runs one attempt after another, until the run is over or cannot go on.
absl::Status train(Job& job, const store::RunMark& mark, const CoordinatorRoleOptions& options) {
  std::optional<HostRank> lost_host;
  if (options.without) lost_host = HostRank(*options.without);
  coordinator::Attempts attempts({.job_file = job.paths.job().string(),
                                  .host = job.host,
                                  .without = job.config.without,
                                  .copies = job.config.copies,
                                  .hosts = job.config.hosts,
                                  .shared_folder = job.one_folder,
                                  .again = options.go_on == runs::GoOn::kIfThereIsACheckpoint,
                                  .lost_host = lost_host});
  PACELINE_ASSIGN_OR_RETURN(const auto before, folder_before(job, options.go_on));
  auto orders = attempts.begin(before);
  while (true) {
    std::optional<coordinator::AttemptEnded> ended;
    for (const coordinator::AttemptsOrder& order : orders) {
      if (const auto* end = std::get_if<coordinator::EndRun>(&order)) return end->status;
      if (const auto* tell = std::get_if<coordinator::Tell>(&order)) job.note(tell->line);
      if (const auto* leave_out = std::get_if<coordinator::LeaveOut>(&order))
        PACELINE_RETURN_IF_ERROR(carry_out(job, *leave_out));
      if (const auto* run = std::get_if<coordinator::RunAttempt>(&order)) {
        PACELINE_ASSIGN_OR_RETURN(ended, carry_out(job, mark, options.go_on, *run));
      }
    }
    PACELINE_CHECK(ended.has_value(), "neither another attempt nor an end is ordered");
    orders = attempts.ended(*ended);
  }
}

}  // namespace

absl::Status run_coordinator(const CoordinatorRoleOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunFolder folder, store::RunFolder::resume(options.run));
  PACELINE_ASSIGN_OR_RETURN(Job job, read(options, folder.paths()));
  // The mark stays if this process is killed: then nobody has ended the run.
  PACELINE_ASSIGN_OR_RETURN(store::RunMark mark, store::RunMark::leave(job.paths));
  gpr_set_log_function(peer::log_of_grpc);  // before the first connection can be refused
  const absl::Status status = train(job, mark, options);
  // A coordinator that could not take up the run, or leaves the lead, has not ended it either: another host may take it
  // up, or this one later.
  const bool leaves = exit_reason_of(status) == ExitReason::kLeavesLead;
  if (leaves || (mark.was_unfinished() && !job.told)) mark.keep();
  if (!job.interrupted) return status;
  // An init system stops commands that it starts again later. These go on with the run.
  if (job.interrupted->cause == StopCause::kShutDown && mark.still_leads().ok()) {
    const absl::Status noted = mark.note_shut_down();
    if (!noted.ok()) mark.keep();  // the next start then goes on as after a kill
    PACELINE_RETURN_IF_ERROR(noted);
  }
  return status.ok() ? with_exit_reason(absl::CancelledError(job.interrupted->why), ExitReason::kInterrupted)
                     : status;
}

}  // namespace paceline::coordinator_process
