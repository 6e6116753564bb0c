#include "paceline/tools/cli/node_command.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/failed_run.h"
#include "paceline/processes/launch/local_cluster.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/launch/watch.h"
#include "paceline/processes/runs/unfinished_run.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/tools/cli/program.h"
#include "paceline/tools/cli/watchers.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

// A host that leads a run may be busy with it, or between two attempts at it.
constexpr std::chrono::seconds kLeaderAnswers{2};
constexpr int kLeaderAsked = 4;  // times
constexpr std::chrono::milliseconds kAskedAgain{500};

// The folder of a host that does not lead: the same for all its starts, so that they do not fill the disk.
struct HostFolder {
  std::string path;
  FileDescriptor lock;
};

absl::StatusOr<HostFolder> folder_of_host(const config::JobConfig& job, std::int64_t rank) {
  std::string name = fmt::format("{}-host{}", job.name, rank);
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const auto folder, store::absolute_path(fs::path(job.runs_dir) / name));
    std::error_code error;
    fs::create_directories(folder / "logs", error);
    if (!error) fs::permissions(folder, fs::perms::owner_all, error);
    const std::string user = fmt::format("-user{}", geteuid());
    const bool of_another_user =
        error == std::errc::permission_denied || error == std::errc::operation_not_permitted;
    if (of_another_user && !name.ends_with(user)) {
      name += user;
      continue;
    }
    if (error) return absl::PermissionDeniedError(fmt::format("{}: {}", folder.string(), error.message()));
    PACELINE_ASSIGN_OR_RETURN(auto lock, store::lock_file(folder / "lock"));
    if (lock) return HostFolder{folder.string(), *std::move(lock)};
    // Another host of this rank, of another run maybe, has it.
    name += fmt::format("-{}", getpid());
  }
}

// The host that leads the run when this host starts.
struct Lead {
  bool here;
  std::string address;  // the coordinator's, if it is not here
  std::string run;      // its folder, if the run has begun
};

// If hosts share no disk, this host's folder does not say what has become of the run since. The host that was
// to lead it next leads it by now, or no host does.
std::optional<runs::Leader> led_by_next(const config::JobConfig& job, const runs::UnfinishedRun& run) {
  const auto next = runs::read_next_leader(store::RunPaths{run.folder});
  const auto access = peer::read_access(job.reach.certs, job.reach.token_file, security::Role::kOperator);
  if (!next.ok() || !access.ok()) return std::nullopt;
  const std::string name = fs::path(run.folder).filename().string();
  for (int i = 0; i < kLeaderAsked; ++i) {
    if (i > 0) std::this_thread::sleep_for(kAskedAgain);
    if (launch::leads_run(next->address, *access, name, kLeaderAnswers)) return *next;
  }
  return std::nullopt;
}

// The first host leads, unless another one leads a run of this job by now.
absl::StatusOr<Lead> lead_of(const NodeOptions& options, const TrainOptions& train,
                             const config::JobConfig& job, const launch::Placement& placement) {
  Lead lead{placement.rank == 0, first_address(job, placement), ""};
  if (options.anew || !train.resume.empty() || !runs::any_unfinished_run(job.runs_dir)) return lead;
  PACELINE_ASSIGN_OR_RETURN(const std::string asked, resolved_job(train));
  const auto run = runs::unfinished_run(job.runs_dir, asked);
  if (!run) return lead;
  lead.run = run->folder;
  runs::Leader leader = run->leader;
  if (!job.shared_folder) leader = led_by_next(job, *run).value_or(leader);
  lead.here = leader.host == placement.rank && (placement.rank == 0 || runs::may_be_taken_up(*run));
  if (leader.host != 0 && leader.host != placement.rank) lead.address = leader.address;
  return lead;
}

launch::HostProcesses processes_of(const config::JobConfig& job, const launch::Placement& placement,
                                   const std::string& address, const Lead& lead, bool several_tasks) {
  launch::HostProcesses host;
  host.first = lead.here;
  host.rank = static_cast<int>(placement.rank);
  host.run = lead.run;
  host.listen = listen_address(job, placement, address);
  host.peers = {.coordinator = lead.here ? "" : lead.address,
                .certs = job.reach.certs,
                .token_file = job.reach.token_file};
  host.shards = {placement.rank};
  host.exchange = address;
  host.fabric = job.fabric;
  host.workers = launch::workers_of_host(job, placement.rank);
  if (several_tasks) host.workers.resize(1);
  return host;
}

// Starts the watchers of the run on the host that leads it, once that is this host. If one cannot be started,
// a line says so, and the run goes on without it.
class OwnWatchers {
 public:
  OwnWatchers(const config::JobConfig& job, bool with_pages) : job_(job), with_pages_(with_pages) {}

  void look(const launch::LocalCluster& cluster, launch::Display& display) {
    if (asked_ || !cluster.led_run()) return;
    asked_ = true;
    auto opened = Watchers::open(job_, with_pages_);
    absl::Status started = opened.status();
    if (opened.ok()) started = watchers_.emplace(*std::move(opened)).start(*cluster.led_run());
    if (!started.ok())
      display.note(fmt::format("nobody can watch the run here: {}", std::string(started.message())));
  }
  void finish() {
    if (watchers_) watchers_->finish();
  }

 private:
  const config::JobConfig& job_;
  const bool with_pages_;
  bool asked_ = false;
  std::optional<Watchers> watchers_;
};

// Runs this host until the run is over. It may lead the run in the end: then it says what was trained.
absl::StatusOr<int> run_other_host(launch::HostProcesses host, const config::JobConfig& job,
                                   const launch::Placement& placement, const NodeOptions& node,
                                   const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const HostFolder folder, folder_of_host(job, placement.rank));
  host.folder = folder.path;
  PACELINE_ASSIGN_OR_RETURN(host.asked, resolved_job(options));
  // The name is not job.toml, because that marks a run's folder.
  host.job_file = host.folder + "/asked.toml";
  PACELINE_RETURN_IF_ERROR(store::atomic_write(host.job_file, host.asked));
  PACELINE_ASSIGN_OR_RETURN(host.runs_dir, store::absolute_path(job.runs_dir));
  launch::Display display(fmt::format("host {}", placement.rank), launch::Shown::kLine);
  const std::string job_file = host.job_file;
  PACELINE_ASSIGN_OR_RETURN(launch::LocalCluster cluster, launch::LocalCluster::start(std::move(host), job));
  if (node.tell_tasks) node.tell_tasks(job_file);
  OwnWatchers watchers(job, options.ui);
  const absl::Status outcome = launch::watch(
      cluster, display, fmt::format("host {} was interrupted", placement.rank), job.on_signal, [&] {
        watchers.look(cluster, display);
        return absl::OkStatus();
      });
  watchers.finish();
  const auto run = cluster.led_run();
  // A stop may come when the job is done: during its last checkpoint, or while a program goes on after it.
  const bool early = run ? cluster.stopped() && !runs::is_over(*run, job) : cluster.stopped_early();
  const bool interrupted = launch::stop_signals() > 0 && early;
  const auto by_other = interrupted ? std::nullopt : cluster.interrupted();
  if (run) {
    if (!outcome.ok())
      return launch::end_of_failed(outcome, *run, true, options.command, cluster.logs_say_more());
    return show_trained({*run, interrupted, by_other, cluster.after()}, options);
  }
  PACELINE_RETURN_IF_ERROR(outcome);
  PACELINE_RETURN_IF_ERROR(cluster.after());
  if (interrupted) return launch::exit_of_stop();
  if (!by_other) return 0;
  launch::print(stderr, fmt::format("stopped: {}; to go on, start the same command again\n", *by_other));
  return kExitOfOthersStop;
}

}  // namespace

absl::StatusOr<int> node_command(const NodeOptions& options, const launch::Environment& environment) {
  launch::catch_warning_signals();
  // Each host would train the whole job by itself.
  if (!launch::says_place(environment, options.place.said)) {
    return absl::InvalidArgumentError(
        "nothing says which host this is: write --rank and --hosts, or start it with srun, mpirun or "
        "torchrun. For this host alone: paceline train");
  }
  PACELINE_ASSIGN_OR_RETURN(const launch::Placement placement,
                            launch::find_placement(environment, options.place.said));
  TrainOptions train = options.train;
  train.command = "paceline node";
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, job_of_hosts(train, placement));
  PACELINE_RETURN_IF_ERROR(check_reach(job, placement));
  PACELINE_RETURN_IF_ERROR(check_address(options.place));
  PACELINE_ASSIGN_OR_RETURN(const std::string address, own_address(options.place, placement));
  PACELINE_ASSIGN_OR_RETURN(const Lead lead, lead_of(options, train, job, placement));
  if (lead.here) {
    // A host that led a run and is started again after its end gets the same command.
    train.take_up = train.resume.empty() && !options.anew;
    train.processes = [placement, address, lead, tell = options.tell_tasks](
                          const std::string& run, const config::JobConfig& planned, bool resume) {
      if (placement.hosts == 1) return launch::all_processes(run, planned, resume);
      launch::HostProcesses host = processes_of(planned, placement, address, lead, tell != nullptr);
      host.folder = run;
      host.job_file = run + "/job.toml";
      host.resume = resume;
      if (tell && !run.empty()) tell(run + "/job.toml");
      return host;
    };
    return train_command(train);
  }
  launch::catch_stop_signals();
  const bool several_tasks = options.tell_tasks != nullptr;
  return run_other_host(processes_of(job, placement, address, lead, several_tasks), job, placement, options,
                        train);
}

}  // namespace paceline::cli
