#include "paceline/processes/launch/local_cluster.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/host_port.h"
#include "paceline/base/resident_memory.h"
#include "paceline/base/start_patience.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/coordinator_process.h"
#include "paceline/processes/launch/failed_run.h"
#include "paceline/processes/launch/own_address.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/raised_priority.h"
#include "paceline/processes/peer/grpc_log.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/processes/rpc/single_call.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/processes/runs/run_checkpoints.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/transport/security/identity.h"
#include "paceline/transport/security/token.h"

namespace paceline::launch {

namespace {

using supervisor::MemberKind;

constexpr int kAnyWidth = 80;
// The time between two looks for a leader elsewhere.
constexpr std::chrono::seconds kLookElsewhere{2};
constexpr std::int64_t kMostAddressBytes = 4096;
constexpr std::chrono::seconds kMemoryEvery{1};
// Built-in models have nothing to do after the job.
constexpr double kOwnEndS = 1;
// How long a coordinator may take to answer this process.
constexpr std::chrono::milliseconds kAnswerLimit{500};

// The file in which the processes of this host read the coordinator's address, as long as there may be one.
std::string leader_file(const HostProcesses& processes) {
  return processes.address_file.empty() ? processes.folder + "/coordinator" : processes.address_file;
}

std::string server_name(std::int64_t shard) { return fmt::format("server{}", shard); }

// The replicas whose workers are all on this host. Another host may have the rest of one, or other ones.
std::vector<std::vector<std::string>> replicas_here(const HostProcesses& processes,
                                                    const config::JobConfig& job) {
  std::vector<std::vector<std::string>> replicas;
  if (processes.workers.size() < job.devices.size()) return replicas;
  if (job.parallel.mode == config::Parallel::kJoint) {
    for (const config::DeviceConfig& device : job.devices) replicas.push_back({device.name});
    return replicas;
  }
  for (const planner::PlannedReplica& planned : job.parallel.plan.replicas) {
    std::vector<std::string>& names = replicas.emplace_back();
    for (const std::int32_t device : planned.devices)
      names.push_back(job.devices[static_cast<std::size_t>(device)].name);
  }
  return replicas;
}

// Whether the job of the run has an evaluator; nothing if there is no run yet.
std::optional<bool> evaluates(const std::string& run) {
  const store::RunPaths paths{run};
  const auto text = runs::read_recorded_job(paths);
  const auto job = text.ok() ? config::parse_job(*text, paths.job()) : text.status();
  return job.ok() ? std::optional(job->evaluates) : std::nullopt;
}

supervisor::SupervisorOptions supervisor_options(const HostProcesses& processes,
                                                 const config::JobConfig& job) {
  supervisor::SupervisorOptions options{.members = {},
                                        .replicas = replicas_here(processes, job),
                                        .plans_anew = job.parallel.mode == config::Parallel::kJoint,
                                        .leads = processes.first,
                                        .evaluates = job.evaluates,
                                        .resumes = processes.resume,
                                        .again = processes.again,
                                        .copies = job.copies > 1,
                                        .beside = !processes.address_file.empty(),
                                        .host = HostRank(processes.rank),
                                        .patience_s = job.host_patience_s,
                                        .after_limit_s = job.program ? job.program->after_limit_s : kOwnEndS,
                                        .run = processes.run,
                                        .leader = processes.peers.coordinator};
  for (const std::int64_t shard : processes.shards)
    options.members.emplace_back(server_name(shard), MemberKind::kServer);
  for (const std::string& name : processes.workers) options.members.emplace_back(name, MemberKind::kWorker);
  return options;
}

supervisor::ProcessEnd end_of(const ChildProcess& process, const ChildProcess::End& end) {
  const bool success = end.wait_status == 0;
  absl::Status reason = success ? absl::OkStatus() : reason_of(process, end);
  if (end.said.reason == ExitReason::kInterrupted)
    reason = with_exit_reason(absl::CancelledError(end.said.message), ExitReason::kInterrupted);
  return {end.said.reason, success, end.killed(), end.in_words(), std::move(reason)};
}

wire::StopRequest::Cause cause_of(StopCause cause) {
  switch (cause) {
    case StopCause::kInterrupted:
      return wire::StopRequest::INTERRUPTED;
    case StopCause::kShutDown:
      return wire::StopRequest::SHUT_DOWN;
    default:
      return wire::StopRequest::ASKED;
  }
}

// The run's leader, according to the folder that all hosts share.
supervisor::LeaderFailover::Seen look_at_folder(const store::RunPaths& run) {
  const auto leader = runs::read_leader(run);
  if (!leader.ok()) return {};
  const auto lock = store::lock_file(run.lock());
  const bool led = !lock.ok() || !lock->has_value();
  // The process that ends a run removes the mark before it unlocks the folder.
  std::error_code error;
  const bool marked = std::filesystem::exists(run.mark(), error);
  // A run that was stopped because a host was shut down goes on once that host is back.
  const bool goes_on = !error && (marked || std::filesystem::exists(run.shut_down(), error));
  if (error) return {};
  return {{{HostRank(leader->host), leader->address}}, led, !goes_on};
}

}  // namespace

std::optional<std::string> address_in(const std::string& file) {
  if (file.empty()) return std::nullopt;
  const auto text = store::read_file(file, kMostAddressBytes);
  if (!text.ok() || text->find('\n') == std::string::npos) return std::nullopt;
  return text->substr(0, text->find('\n'));
}

std::optional<Leads> leads_run(const std::string& address, const rpc::Access& access, const std::string& name,
                               std::chrono::milliseconds limit) {
  const auto stub = peer::coordinator_stub(address, access, limit);
  grpc::ClientContext context;
  rpc::introduce(context, access);
  context.set_deadline(std::chrono::system_clock::now() + limit);
  wire::StatusRequest request;
  request.set_width(kAnyWidth);
  wire::StatusReply reply;
  const bool answered = rpc::call_once(stub->Status(&context), request, reply).ok();
  if (!answered || std::filesystem::path(reply.run()).filename() != name) return std::nullopt;
  return Leads{!reply.line().empty(), reply.notes_of()};
}

HostProcesses all_processes(const std::string& run, const config::JobConfig& job, bool resume) {
  HostProcesses all{.folder = run, .resume = resume};
  const config::Reach& reach = job.reach;
  all.peers.certs = reach.certs;
  all.peers.token_file = reach.token_file.empty() ? store::RunPaths{run}.token().string() : reach.token_file;
  for (std::int64_t shard = 0; shard < job.servers; ++shard) all.shards.push_back(shard);
  if (job.hosts > 1) all.exchange = "127.0.0.1";  // each server as if on a host of its own
  all.fabric = job.fabric;
  for (const config::DeviceConfig& device : job.devices) all.workers.push_back(device.name);
  all.job_file = store::RunPaths{run}.job().string();
  return all;
}

LocalCluster::LocalCluster(HostProcesses processes, const config::JobConfig& job)
    : processes_(std::move(processes)),
      shared_folder_(job.shared_folder),
      patience_s_(supervisor::longest_s(HostRank(processes_.rank), job.host_patience_s)),
      supervisor_(supervisor_options(processes_, job), std::chrono::steady_clock::now()),
      listen_(processes_.listen.empty() ? job.reach.listen : processes_.listen),
      reach_(processes_.peers) {
  if (processes_.first) run_ = processes_.folder;
  // The processes that compute are children of this program, which need not have loaded libtorch itself.
  const auto engines = job.program ? ChildProgram::kThis : ChildProgram::kWithTorch;
  const auto with_job = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--job", processes_.job_file});
    return arguments;
  };
  for (const std::int64_t shard : processes_.shards) {
    std::vector<std::string> arguments = {"server", "--shard", std::to_string(shard)};
    if (!processes_.exchange.empty())
      arguments.insert(arguments.end(), {"--exchange", processes_.exchange, "--fabric", processes_.fabric});
    Child& server = children_[server_name(shard)];
    server = {ChildProgram::kWithoutTorch, std::move(arguments), {}};
    // Without a keep a server's memory ends with it, and nothing else is different.
    if (auto keep = ipc::DescriptorKeep::open(); keep.ok()) server.keep = *std::move(keep);
  }
  for (const std::string& name : processes_.workers) {
    std::vector<std::string> arguments = {"worker", "--name", name};
    if (!processes_.exchange.empty()) arguments.insert(arguments.end(), {"--address", processes_.exchange});
    children_[name] = {engines, with_job(std::move(arguments)), {}};
  }
  children_[supervisor::kEvaluator] = {engines, with_job({supervisor::kEvaluator}), {}};
}

absl::StatusOr<LocalCluster> LocalCluster::start(HostProcesses processes, const config::JobConfig& job,
                                                 std::shared_ptr<ForkServer> fork_server) {
  if (job.devices.size() > config::kMostLiveDevices)
    return absl::InvalidArgumentError(
        fmt::format("device: a live job has at most {} devices, and this one has {}; --virtual takes {}",
                    config::kMostLiveDevices, job.devices.size(), config::kMostDevicesOfJob));
  LocalCluster cluster(std::move(processes), job);
  if (!cluster.processes_.first) {
    PACELINE_RETURN_IF_ERROR(cluster.read_access());
    PACELINE_RETURN_IF_ERROR(cluster.follow(cluster.reach_.coordinator));
  }
  // The fork server loads while the coordinator and the servers start. Without one, each process loads the
  // program itself.
  const bool computes = !cluster.processes_.workers.empty() || cluster.processes_.first;
  if (computes) cluster.fork_server_ = std::move(fork_server);
  if (computes && !cluster.fork_server_ && !job.program && has_torch_program()) {
    const std::vector<std::string> words = {kForkServerCommand, cluster.processes_.job_file};
    if (auto server = ForkServer::start(ChildProgram::kWithTorch, words); server.ok())
      cluster.fork_server_ = std::make_shared<ForkServer>(*std::move(server));
  }
  const bool keeps = job.copies > 1 && !job.shared_folder && !cluster.processes_.runs_dir.empty();
  if (keeps && !cluster.processes_.first) cluster.start_keeper(cluster.processes_.run);
  cluster.take(supervisor::Begun{});
  if (cluster.outcome() && !cluster.outcome()->ok()) return *cluster.outcome();
  return cluster;
}

// ---- Events ----

void LocalCluster::take(What what) {
  for (const supervisor::Action& action :
       supervisor_.take({std::chrono::steady_clock::now(), std::move(what)})) {
    if (auto answer = carry_out(action)) take(*std::move(answer));
  }
}

std::vector<std::string> LocalCluster::tend() {
  for (auto& [name, child] : children_) {
    const auto ended = child.process ? child.process->ended() : std::nullopt;
    if (!ended) continue;
    const ChildProcess process = *std::exchange(child.process, std::nullopt);
    // Training may have begun since the last answer. A coordinator that is busy answers too late.
    if (!supervisor_.training()) status(kAnyWidth);
    take(supervisor::MemberEnded{name, end_of(process, *ended), runs::newest_checkpoint({run_}),
                                 !supervisor_.training() && has_trained(run_)});
  }
  if (coordinator_ && supervisor_.leads() && !supervisor_.ending()) {
    if (const auto ended = coordinator_->ended(); ended && !outcome())
      take(supervisor::CoordinatorEnded{end_of(*coordinator_, *ended), runs::newest_checkpoint({run_}),
                                        has_trained(run_)});
  }
  take(supervisor::TimePassed{});
  if (keeper_ && outcome() && supervisor_.heard_of_end()) std::exchange(keeper_, nullptr)->run_is_over();
  return std::exchange(news_, {});
}

// A lost server is back sooner if its end is seen at once.
void LocalCluster::wait_for_end(std::chrono::milliseconds limit) const {
  std::vector<FileDescriptor> processes;
  std::vector<pollfd> watched;
  for (const auto& [name, child] : children_) {
    if (!child.process) continue;
    // A Linux before 5.3 has no such descriptors; then this waits for the whole limit.
    FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, child.process->pid(), 0)));
    if (!process.valid()) continue;
    watched.push_back({process.get(), POLLIN, 0});
    processes.push_back(std::move(process));
  }
  poll(watched.data(), watched.size(), static_cast<int>(limit.count()));
}

std::optional<wire::StatusReply> LocalCluster::status(int width) {
  if (!connect()) {
    take(supervisor::NotAnswered{});
    return std::nullopt;
  }
  grpc::ClientContext context;
  rpc::introduce(context, access_);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  wire::StatusRequest request;
  request.set_width(width);
  notes_.ask(request);
  if (const auto now = std::chrono::steady_clock::now();
      now >= next_memory_ && processes_.address_file.empty()) {
    next_memory_ = now + kMemoryEvery;
    request.set_host(processes_.rank);
    request.set_resident_bytes(resident_bytes());
  }
  wire::StatusReply reply;
  const grpc::Status asked = rpc::call_once(stub_->Status(&context), request, reply);
  if (!asked.ok()) {
    const bool nobody = asked.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
    // A channel connects again only while a call waits for it, which calls that fail at once do not.
    if (nobody) stub_.reset();
    take(supervisor::NotAnswered{nobody});
    return std::nullopt;
  }
  hear_of_keeper(reply);
  // All samples are trained, and no worker needs the processors any more.
  const Child& evaluator = children_.at(supervisor::kEvaluator);
  if (!reply.waits_for().empty() && evaluator.process) raise_priority(evaluator.process->pid());
  const std::vector<std::string> notes = notes_.take(reply);
  if (processes_.address_file.empty()) news_.insert(news_.end(), notes.begin(), notes.end());
  take(supervisor::Answered{
      reply.run(), reply.attempt(), !reply.line().empty(), {reply.missing().begin(), reply.missing().end()}});
  if (reply.line().empty()) look_whether_led_elsewhere(reply.notes_of());
  return reply;
}

std::optional<std::string> LocalCluster::led_run() const {
  if (!supervisor_.leads()) return std::nullopt;
  return run_;
}

// The socket of a coordinator that has ended is kept for the next one, so nobody answers there.
bool LocalCluster::connect() {
  if (stub_ != nullptr || (coordinator_ && coordinator_->ended())) return stub_ != nullptr;
  if (auto address = address_in(processes_.address_file)) reach_.coordinator = *std::move(address);
  // Certificates may have been renewed. If they have expired, the coordinator says so.
  auto access = peer::read_access(reach_.certs, reach_.token_file, security::Role::kOperator);
  if (access.ok()) access_ = *std::move(access);
  stub_ = peer::coordinator_stub(reach_.coordinator, access_, kAnswerLimit);
  return true;
}

// ---- Actions ----

std::optional<LocalCluster::What> LocalCluster::carry_out(const supervisor::Action& action) {
  return std::visit([this](const auto& one) { return act(one); }, action);
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::StartMember& member) {
  return supervisor::MemberStarted{member.name, start(member.name)};
}

absl::Status LocalCluster::start(const std::string& name) {
  Child& child = children_[name];
  std::vector<std::string> arguments = child.arguments;
  arguments.insert(arguments.end(), {"--coordinator", "@" + leader_file(processes_)});
  arguments.insert(arguments.end(), {"--token-file", reach_.token_file});
  arguments.insert(arguments.end(), {"--first-patience", std::to_string(kStartPatience.count())});
  // This process watches the coordinator here, and the processes that wait for it die with this one.
  const double patience_s = processes_.first ? static_cast<double>(kStartPatience.count()) : patience_s_;
  arguments.insert(arguments.end(), {"--patience", std::to_string(patience_s)});
  if (!reach_.certs.empty()) arguments.insert(arguments.end(), {"--certs", reach_.certs});
  std::vector<int> inherited;
  if (child.keep) {
    arguments.emplace_back("--keep");
    for (const int end : child.keep->ends()) {
      arguments.push_back(std::to_string(end));
      inherited.push_back(end);
    }
  }
  PACELINE_ASSIGN_OR_RETURN(child.process, start_process(child.program, name, arguments, inherited));
  return absl::OkStatus();
}

absl::StatusOr<ChildProcess> LocalCluster::start_process(ChildProgram program, const std::string& name,
                                                         const std::vector<std::string>& arguments,
                                                         const std::vector<int>& inherited) {
  const std::string log = fmt::format("{}/logs/{}.log", processes_.folder, name);
  if (fork_server_ && program == ChildProgram::kWithTorch) {
    auto forked = fork_server_->start_child(name, arguments, log);
    if (!absl::IsUnavailable(forked.status())) return forked;
    fork_server_.reset();
  }
  return ChildProcess::start(program, name, arguments, log, inherited);
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::KillMember& kill) {
  children_[kill.name].process.reset();
  return std::nullopt;
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::StartCoordinator& start) {
  const absl::Status status = start_coordinator(start);
  const auto ended = status.ok() || !coordinator_ ? std::nullopt : coordinator_->ended();
  // A coordinator that was killed for a stop is not started again. The first leader knows its own job.
  return supervisor::CoordinatorStarted{status, ended && ended->killed() && !absl::IsCancelled(status),
                                        supervisor_.leads() ? std::nullopt : evaluates(run_)};
}

absl::Status LocalCluster::start_coordinator(const supervisor::StartCoordinator& start) {
  if (!start.run.empty()) run_ = start.run;
  if (!start.run.empty() && keeper_) {
    run_ = keeper_->run().value_or(start.run);
    std::exchange(keeper_, nullptr)->stop();
  }
  PACELINE_RETURN_IF_ERROR(listen());
  PACELINE_ASSIGN_OR_RETURN(CoordinatorProcess started,
                            start_coordinator_process(run_, coordinator_arguments(start), *listening_));
  coordinator_.emplace(std::move(started.child));
  PACELINE_RETURN_IF_ERROR(started.address.status());
  if (!reach_.coordinator.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(follow(from_here(listening_->address)));
  return read_access();  // the token exists by now
}

absl::Status LocalCluster::listen() {
  if (listening_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(listening_, rpc::listen_for_job(listen_));
  return absl::OkStatus();
}

std::vector<std::string> LocalCluster::coordinator_arguments(
    const supervisor::StartCoordinator& start) const {
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  if (!processes_.exchange.empty()) {
    add("--host", std::to_string(processes_.rank));
    add("--reached-at", processes_.exchange);
  }
  // The run's job has the first host's settings.
  if (processes_.rank > 0) {
    add("--certs", reach_.certs);
    add("--token-file", reach_.token_file);
  }
  if (processes_.shards.size() > 1) words.emplace_back("--shared-folder");  // all hosts are this machine
  if (start.without) add("--without", fmt::to_string(*start.without));
  if (start.again) {
    words.emplace_back("--again");
    if (start.hosts_start) words.emplace_back("--hosts-start");
  } else if (processes_.resume) {
    words.emplace_back("--resume");
    if (processes_.only_checkpoint) words.emplace_back("--only-checkpoint");
  }
  if (processes_.resume && reach_.coordinator.empty()) words.emplace_back("--new-token");
  return words;
}

absl::Status LocalCluster::read_access() {
  gpr_set_log_function(peer::no_log_of_grpc);
  PACELINE_ASSIGN_OR_RETURN(access_,
                            peer::read_access(reach_.certs, reach_.token_file, security::Role::kOperator));
  if (access_.credentials && security::end_soon(*access_.credentials, std::time(nullptr)))
    print(stderr,
          fmt::format(
              "{}: the certificates end on {}; after that a lost process cannot come back. Make new ones "
              "before: paceline certs\n",
              reach_.certs, security::day_of(access_.credentials->expire)));
  const std::string token = reach_.token_file.empty() ? reach_.certs + "/token" : reach_.token_file;
  if (security::is_exposed(token)) print(stderr, security::exposed_in_words(token) + "\n");
  return absl::OkStatus();
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::KillCoordinator&) {
  if (coordinator_) coordinator_->signal(SIGKILL);
  return std::nullopt;
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::DropCoordinator&) {
  coordinator_.reset();
  listening_.reset();
  if (!shared_folder_ && !processes_.runs_dir.empty()) start_keeper(run_);
  return std::nullopt;
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::FollowLeader& leader) {
  if (leader.address) listening_.reset();  // no process waits here for a coordinator that does not come
  // The coordinator's start then fails for the same reason, and says it.
  if (!leader.address && !listen().ok()) return std::nullopt;
  const absl::Status status = follow(leader.address ? *leader.address : from_here(listening_->address));
  if (!status.ok()) news_.emplace_back(status.message());
  return std::nullopt;
}

absl::Status LocalCluster::follow(const std::string& address) {
  if (processes_.address_file.empty())
    PACELINE_RETURN_IF_ERROR(store::atomic_write(leader_file(processes_), address + "\n"));
  reach_.coordinator = address;
  stub_.reset();
  return absl::OkStatus();
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::EndWaiting&) {
  std::error_code ignored;  // a process that does not notice it waits out its patience
  if (processes_.address_file.empty()) std::filesystem::remove(leader_file(processes_), ignored);
  listening_.reset();  // a connection that was made before this gets no answer
  return std::nullopt;
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::AskStop& stop) {
  wire::StopRequest request;
  request.set_why(stop.why);
  request.set_cannot_start(stop.cannot_start);
  request.set_cause(cause_of(stop.cause));
  if (connect()) ask(request);
  return std::nullopt;
}

bool LocalCluster::write_checkpoint(const std::string& why) {
  wire::StopRequest request;
  request.set_why(why);
  request.set_checkpoint(true);
  return stub_ != nullptr && ask(request);
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::GiveWay& way) {
  wire::StopRequest request;
  wire::StopRequest::Leader& to = *request.mutable_give_way_to();
  to.set_host(way.to.host.value());
  to.set_address(way.to.address);
  if (stub_ != nullptr) ask(request);
  return std::nullopt;
}

bool LocalCluster::ask(const wire::StopRequest& request) {
  grpc::ClientContext context;
  rpc::introduce(context, access_);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  wire::StopReply reply;
  return rpc::call_once(stub_->Stop(&context), request, reply).ok();
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::LookAtFolder& look) {
  // The first task of this host looks for the leader, or leads.
  if (!processes_.address_file.empty()) return supervisor::FolderSeen{};
  // A folder at the same path on another host's disk is not the run.
  if (!shared_folder_) return supervisor::FolderSeen{look_around()};
  return supervisor::FolderSeen{look_at_folder(store::RunPaths{look.run})};
}

// ---- Hosts that share no disk ----

void LocalCluster::start_keeper(const std::string& run) {
  keeper_ = std::make_unique<RunKeeper>(
      RunKeeper::Options{.host = HostRank(processes_.rank),
                         .address = host_port(processes_.exchange, listen_.substr(listen_.rfind(':') + 1)),
                         .runs_dir = processes_.runs_dir,
                         .asked = processes_.asked,
                         .run = run});
}

void LocalCluster::hear_of_keeper(const wire::StatusReply& reply) {
  if (shared_folder_ || supervisor_.leads()) return;
  run_name_ = std::filesystem::path(reply.run()).filename().string();
  if (!reply.next_leader().empty()) next_leader_ = runs::Leader{reply.keeper(), reply.next_leader()};
  if (!keeper_ || !reply.has_keeper()) return;
  reply.keeper() == processes_.rank ? keeper_->keep(reach_.coordinator, access_) : keeper_->leave();
}

// The next leader may have been between two tries to lead when this host was started; or the leader before was started
// when this one took over. `own_number`: of the coordinator here, as hosts may share one address.
void LocalCluster::look_whether_led_elsewhere(std::uint64_t own_number) {
  const auto now = std::chrono::steady_clock::now();
  if (shared_folder_ || !supervisor_.leads() || now < next_look_) return;
  next_look_ = now + kLookElsewhere;
  const std::string name = std::filesystem::path(run_).filename().string();
  if (const auto before = supervisor_.may_give_way_to()) {
    const auto found = leads_run(*before, access_, name, kAnswerLimit);
    if (found && found->number != 0 && found->number != own_number) take(supervisor::LeaderIsBack{});
    return;
  }
  if (!processes_.resume) return;
  const auto next = runs::read_next_leader(store::RunPaths{run_});
  if (!next.ok() || next->host == processes_.rank) return;
  if (const auto found = leads_run(next->address, access_, name, kAnswerLimit); found && found->trains)
    take(supervisor::LedElsewhere{{HostRank(next->host), next->address}});
}

// The keeper of the run leads it next, so it has to be asked, unless it is this host itself.
supervisor::LeaderFailover::Seen LocalCluster::look_around() const {
  if (next_leader_ && next_leader_->host != processes_.rank &&
      leads_run(next_leader_->address, access_, run_name_, kAnswerLimit))
    return {{{HostRank(next_leader_->host), next_leader_->address}}, true, false};
  if (!keeper_ || !keeper_->run()) return {};
  const runs::Leader leader = keeper_->leader().value_or(runs::Leader{});
  return {{{HostRank(leader.host), leader.address}}, false, false};
}

std::optional<LocalCluster::What> LocalCluster::act(const supervisor::Tell& tell) {
  news_.push_back(tell.line);
  return std::nullopt;
}

}  // namespace paceline::launch
