#include "paceline/launch/local_cluster.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include <absl/strings/match.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/launch/coordinator_process.h"
#include "paceline/launch/failed_run.h"
#include "paceline/launch/own_address.h"
#include "paceline/launch/say.h"
#include "paceline/roles/grpc_log.h"
#include "paceline/rpc/port.h"
#include "paceline/rpc/single_call.h"
#include "paceline/runs/run_checkpoints.h"
#include "paceline/security/identity.h"
#include "paceline/security/token.h"
#include "paceline/store/files.h"
#include "paceline/store/run_folder.h"

namespace paceline::launch {

namespace {

constexpr char kEvaluator[] = "evaluator";

constexpr int kAnyWidth = 80;
constexpr std::time_t kSoon_s = 7 * 86400;
// A child that the coordinator waits for so long hangs, or has lost its way.
constexpr std::chrono::seconds kMissedLimit{10};
// So long a coordinator has to answer when this process comes to it.
constexpr std::chrono::milliseconds kAnswerLimit{500};

bool is_worker(const std::string& name) { return absl::StartsWith(name, "w"); }

// Where the processes of a host that does not lead read the coordinator's address.
std::string leader_file(const Household& household) { return household.folder + "/coordinator"; }

}  // namespace

Household whole_household(const std::string& run, const config::JobConfig& job, bool resume) {
  Household all{.folder = run, .resume = resume};
  const config::Reach& reach = job.reach;
  all.peers.certs = reach.certs;
  all.peers.token_file = reach.token_file.empty() ? store::RunPaths{run}.token().string() : reach.token_file;
  for (std::int64_t shard = 0; shard < job.servers; ++shard) all.shards.push_back(shard);
  if (job.hosts > 1) all.exchange = "127.0.0.1";  // each server as if on a host of its own
  all.fabric = job.fabric;
  for (const config::ReplicaConfig& device : job.replicas) all.workers.push_back(device.name);
  if (job.program) all.job_file = store::RunPaths{run}.job().string();
  return all;
}

LocalCluster::LocalCluster(Household household, const config::JobConfig& job)
    : household_(std::move(household)),
      kept_twice_(job.copies > 1),
      evaluates_(job.evaluates),
      listen_(household_.listen.empty() ? job.reach.listen : household_.listen),
      reach_(household_.peers) {
  if (household_.first) run_ = household_.folder;
  if (!household_.first)
    next_.emplace(household_.rank, job.host_patience_s, household_.run, std::chrono::steady_clock::now());
  // Another host may have the rest of a replica, or other replicas: then nobody here can say that none is
  // left.
  if (household_.workers.size() < job.replicas.size()) return;
  // Who plans anew can make do with any worker.
  planned_anew_ = job.parallel.mode == config::Parallel::kJoint;
  if (planned_anew_) {
    for (const config::ReplicaConfig& device : job.replicas) replicas_.push_back({device.name});
    return;
  }
  for (const planner::PlannedReplica& planned : job.parallel.plan.replicas) {
    std::vector<std::string>& names = replicas_.emplace_back();
    for (const std::int32_t device : planned.devices)
      names.push_back(job.replicas[static_cast<std::size_t>(device)].name);
  }
}

absl::StatusOr<LocalCluster> LocalCluster::start(Household household, const config::JobConfig& job) {
  LocalCluster cluster(std::move(household), job);
  if (cluster.household_.first) PACELINE_RETURN_IF_ERROR(cluster.start_first_coordinator());
  PACELINE_RETURN_IF_ERROR(cluster.start_peers());
  return cluster;
}

// A run that has trained before is not over because somebody is killed while it comes back.
absl::Status LocalCluster::start_first_coordinator() {
  absl::Status status = start_coordinator(household_.again);
  for (int left = runs::Restarts::kMost; household_.resume && left > 0 && was_killed_at_once(status); --left)
    status = start_coordinator(household_.again);
  return status;
}

// Before it could listen.
bool LocalCluster::was_killed_at_once(const absl::Status& start) {
  const auto ended = start.ok() || !coordinator_ ? std::nullopt : coordinator_->ended();
  return ended && ended->killed();
}

absl::Status LocalCluster::start_coordinator(bool again) {
  if (!listening_) {
    PACELINE_ASSIGN_OR_RETURN(listening_, rpc::listen_for_job(listen_));
  }
  PACELINE_ASSIGN_OR_RETURN(CoordinatorProcess started,
                            start_coordinator_process(run_, coordinator_words(again), *listening_));
  coordinator_.emplace(std::move(started.child));
  PACELINE_RETURN_IF_ERROR(started.address.status());
  if (reach_.coordinator.empty()) reach_.coordinator = from_here(listening_->address);
  return absl::OkStatus();
}

std::vector<std::string> LocalCluster::coordinator_words(bool again) const {
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  if (!household_.exchange.empty()) {
    add("--host", std::to_string(household_.rank));
    add("--reached-at", household_.exchange);
  }
  // The run's job has them as the first host does.
  if (household_.rank > 0) {
    add("--certs", reach_.certs);
    add("--token-file", reach_.token_file);
  }
  if (gone_) add("--without", std::to_string(*gone_));
  if (again) {
    words.emplace_back("--again");
  } else if (household_.resume) {
    words.emplace_back("--resume");
  }
  return words;
}

absl::Status LocalCluster::start_peers() {
  gpr_set_log_function(roles::no_log_of_grpc);
  PACELINE_ASSIGN_OR_RETURN(access_,
                            roles::read_access(reach_.certs, reach_.token_file, security::Role::kOperator));
  if (access_.credentials && access_.credentials->expire < std::time(nullptr) + kSoon_s)
    say(stderr, fmt::format("{}: the certificates end on {}; from then on nobody who is lost comes back. Make new ones "
                            "before: paceline certs\n",
                            reach_.certs, security::day_of(access_.credentials->expire)));
  const std::string token = reach_.token_file.empty() ? reach_.certs + "/token" : reach_.token_file;
  if (security::is_exposed(token))
    say(stderr, fmt::format("{}: others on this host can read the job's token; chmod 600 it\n", token));
  if (!household_.first) PACELINE_RETURN_IF_ERROR(follow(reach_.coordinator));
  for (const std::int64_t shard : household_.shards) {
    std::vector<std::string> arguments = {"server", "--shard", std::to_string(shard)};
    if (!household_.exchange.empty())
      arguments.insert(arguments.end(), {"--exchange", household_.exchange, "--fabric", household_.fabric});
    peers_.push_back({ChildProgram::kWithoutTorch, fmt::format("server{}", shard), std::move(arguments), {}});
  }
  for (const std::string& name : household_.workers) {
    std::vector<std::string> arguments = {"worker", "--name", name};
    if (!household_.exchange.empty()) arguments.insert(arguments.end(), {"--address", household_.exchange});
    if (!household_.job_file.empty()) arguments.insert(arguments.end(), {"--job", household_.job_file});
    peers_.push_back({ChildProgram::kThis, name, std::move(arguments), {}});
  }
  if (household_.first && evaluates_) peers_.push_back(evaluator());
  for (Child& child : peers_) PACELINE_RETURN_IF_ERROR(start(child));
  return absl::OkStatus();
}

LocalCluster::Child LocalCluster::evaluator() const {
  std::vector<std::string> arguments = {kEvaluator};
  if (!household_.job_file.empty()) arguments.insert(arguments.end(), {"--job", household_.job_file});
  return {ChildProgram::kThis, kEvaluator, std::move(arguments), {}};
}

absl::Status LocalCluster::start(Child& child) {
  std::vector<std::string> arguments = child.arguments;
  const std::string coordinator = next_ ? "@" + leader_file(household_) : reach_.coordinator;
  arguments.insert(arguments.end(), {"--coordinator", coordinator, "--token-file", reach_.token_file});
  if (next_) arguments.insert(arguments.end(), {"--patience", std::to_string(next_->longest_s())});
  if (!reach_.certs.empty()) arguments.insert(arguments.end(), {"--certs", reach_.certs});
  child.missed_since.reset();
  child.attempt = attempt_;
  PACELINE_ASSIGN_OR_RETURN(
      child.process, ChildProcess::start(child.program, child.name, arguments,
                                         fmt::format("{}/logs/{}.log", household_.folder, child.name)));
  return absl::OkStatus();
}

// Where the socket of a coordinator that has ended is kept for the next one, nobody answers.
bool LocalCluster::connect() {
  if (stub_ != nullptr || (coordinator_ && coordinator_->ended())) return stub_ != nullptr;
  // Certificates may have been renewed. What has expired the coordinator says.
  auto access = roles::read_access(reach_.certs, reach_.token_file, security::Role::kOperator);
  if (access.ok()) access_ = *std::move(access);
  stub_ = roles::coordinator_stub(reach_.coordinator, access_, kAnswerLimit);
  return true;
}

std::optional<wire::StatusReply> LocalCluster::status(int width) {
  coordinator_gone_ = !connect();
  if (coordinator_gone_) return std::nullopt;
  grpc::ClientContext context;
  rpc::show_token(context, access_);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  wire::StatusRequest request;
  request.set_width(width);
  request.set_notes_seen(notes_seen_);
  wire::StatusReply reply;
  const grpc::Status asked = rpc::call_once(stub_->Status(&context), request, reply);
  if (asked.ok() && next_) next_->heard(reply.run(), std::chrono::steady_clock::now());
  coordinator_gone_ = !asked.ok() && asked.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
  // A channel connects again only while somebody waits for it, which calls that fail at once do not.
  if (coordinator_gone_) stub_.reset();
  if (!asked.ok()) return std::nullopt;
  training_ = training_ || !reply.line().empty();
  notes_seen_ += reply.notes_size();
  notes_.insert(notes_.end(), reply.notes().begin(), reply.notes().end());
  latest_ = reply;
  return reply;
}

std::vector<std::string> LocalCluster::tend() {
  std::vector<std::string> news;
  if (stopping_ && !outcome_) stop(*stopping_);  // a coordinator between two attempts hears nothing
  const bool any_before = any_replica_whole();
  lost_worker_.clear();
  for (Child& child : peers_) {
    const auto ended = child.process ? child.process->ended() : std::nullopt;
    if (!ended) continue;
    if (auto line = look_at_end(child, *ended)) news.push_back(*std::move(line));
  }
  if (leads()) {
    look_at_coordinator(news);
  } else if (!outcome_ && !stopping_) {
    look_for_leader(news);
  }
  if (!leads() && !outcome_ && all_ended()) outcome_ = end_of_peers();
  if (!outcome_ && !stopping_) {
    look_at_attempt(news);
    start_again_who_is_missed(news);
  }
  // At a job's end the workers leave in peace; a coordinator that is ending ignores this.
  if (!outcome_ && any_before && !any_replica_whole() && training_) {
    if (lost_all_.empty()) lost_all_ = lost_worker_;
    stop("no replica is left");
  }
  for (std::string& note : std::exchange(notes_, {})) news.push_back(std::move(note));
  return news;
}

std::optional<std::string> LocalCluster::look_at_end(Child& child, const ChildProcess::End& end) {
  using roles::Ending;
  const ChildProcess ended = *std::exchange(child.process, std::nullopt);
  const Ending ending = end.said.ending;
  logs_say_more_ |= ending == Ending::kUnsaid;
  // Of one whose place is taken the other one may be one that a user started, or from before and not missed yet. If
  // that goes, the coordinator says who is missing.
  if (ending == Ending::kDone || ending == Ending::kPlaceTaken) return std::nullopt;
  if (ending == Ending::kRunFailed) {
    failure_ = reason_of(ended, end);
    return std::nullopt;
  }
  if (ending == Ending::kHostGivenUp) {
    // The run is none of this host's any more; it is not stopped.
    outcome_ = reason_of(ended, end);
    for (Child& other : peers_) other.process.reset();
    return std::nullopt;
  }
  // Training may have begun since somebody asked last.
  if (!training_) status(kAnyWidth);
  if (!training_ && end.killed()) {
    const std::string lost = fmt::format("{} was lost ({})", child.name, end.in_words());
    // A coordinator that is gone by now has ended of it, and says why, or was lost as well: if it is started
    // again, so is this one.
    if (leads() && coordinator_gone_) return lost;
    if (!stopping_ && has_trained_before() && comes_back_.again(runs::newest_checkpoint({run_})))
      return lost + start_after_loss(child);
  }
  const bool own_error = !end.killed() && ending != Ending::kCoordinatorLost;
  if (!training_ || (!leads() && own_error && !is_worker(child.name))) {
    if (!first_error_ && ending != Ending::kCoordinatorLost) {
      first_error_ = reason_of(ended, end);
      stop("a process could not start");
    }
    return std::nullopt;
  }
  const std::string why = own_error ? std::string(reason_of(ended, end).message()) : end.in_words();
  if (is_worker(child.name)) lost_worker_ = fmt::format("{}: {}", child.name, why);
  if (is_worker(child.name))
    return fmt::format("{} was lost ({}){}", child.name, why,
                       planned_anew_ ? "" : "; the others train on its samples");
  if (child.name == kEvaluator && !restart_evaluator(end))
    return fmt::format("{} was lost ({}); training goes on without evaluations", child.name, why);
  if (stopping_) return std::nullopt;
  return fmt::format("{} was lost ({}){}", child.name, why, start_after_loss(child));
}

// What is to be said of it.
std::string LocalCluster::start_after_loss(Child& child) {
  const absl::Status again = start(child);
  child.attempt = attempt_ + 1;
  return "; " + (again.ok() ? "it is started again" : std::string(again.message()));
}

// Then somebody who is killed while it comes back is no reason to end it.
bool LocalCluster::has_trained_before() const { return household_.resume || latest_.attempt() > 1; }

// One that ended by itself would do so again.
bool LocalCluster::restart_evaluator(const ChildProcess::End& end) {
  return end.killed() && evaluator_restarts_.again(runs::newest_checkpoint({run_}));
}

void LocalCluster::look_at_coordinator(std::vector<std::string>& news) {
  const auto ended = coordinator_->ended();
  if (!ended || outcome_) return;
  // Likewise it may have begun to train since somebody asked last.
  training_ = training_ || (ended->killed() && has_trained(run_));
  const bool go_on = training_ && !stopping_ && !first_error_ && ended->killed();
  if (!go_on) {
    outcome_ = end_of_coordinator(*ended);
    return;
  }
  const std::string end = ended->in_words();
  const auto newest = runs::newest_checkpoint({run_});
  if (!restarts_.again(newest)) {
    outcome_ =
        absl::UnavailableError(fmt::format("the coordinator was lost ({}), for the {}th time without a "
                                           "new checkpoint",
                                           end, runs::Restarts::kMost + 1));
    return;
  }
  const std::string from = newest ? fmt::format("the checkpoint of version {}", *newest) : "the start";
  news.push_back(fmt::format("the coordinator was lost ({}); {}", end,
                             kept_twice_ ? "it is started again" : "going on from " + from));
  notes_seen_ = 0;
  attempt_ =
      std::max<std::int64_t>(attempt_, 1);  // the next one is another, though nobody asked for the first
  const absl::Status again = start_coordinator(true);
  // That one is the next time's.
  if (!again.ok() && !was_killed_at_once(again)) outcome_ = again;
}

// Where the coordinator is now, when it has not been heard of for a while.
void LocalCluster::look_for_leader(std::vector<std::string>& news) {
  const Succession::Step step = next_->look(std::chrono::steady_clock::now());
  if (const auto* other = std::get_if<Succession::Follow>(&step)) {
    listening_.reset();  // nobody waits here for a coordinator that does not come
    const absl::Status status = follow(other->leader.address);
    news.push_back(
        status.ok() ? fmt::format("host {} leads the run, from {}", other->leader.host, other->leader.address)
                    : std::string(status.message()));
  } else if (const auto* mine = std::get_if<Succession::Lead>(&step)) {
    const absl::Status status = lead(mine->lost);
    const std::string why =
        mine->lost ? fmt::format("host {} did not come back", *mine->lost) : "this host led the run before";
    news.push_back(status.ok() ? why + "; this one leads the run"
                               : fmt::format("{}, and this one cannot lead the run: {}", why,
                                             std::string(status.message())));
  } else if (std::holds_alternative<Succession::Over>(step)) {
    news.emplace_back("the run has ended meanwhile");
    outcome_ = absl::OkStatus();
  }
}

absl::Status LocalCluster::follow(const std::string& address) {
  PACELINE_RETURN_IF_ERROR(store::atomic_write(leader_file(household_), address + "\n"));
  reach_.coordinator = address;
  stub_.reset();
  return absl::OkStatus();
}

absl::Status LocalCluster::lead(std::optional<int> lost) {
  run_ = next_->run();
  gone_ = lost;
  const absl::Status started = start_coordinator(true);
  if (!started.ok()) {
    coordinator_.reset();
    listening_.reset();
    return started;
  }
  PACELINE_RETURN_IF_ERROR(follow(from_here(listening_->address)));
  notes_seen_ = 0;
  return evaluates_ ? start(peers_.emplace_back(evaluator())) : absl::OkStatus();
}

std::optional<std::string> LocalCluster::led_run() const {
  if (!leads()) return std::nullopt;
  return run_;
}

// Another attempt at the job wants all places filled.
void LocalCluster::look_at_attempt(std::vector<std::string>& news) {
  const std::int64_t before = std::exchange(attempt_, latest_.attempt());
  if (before == 0 || attempt_ <= before) return;
  for (Child& child : peers_) {
    if (child.process) continue;
    const absl::Status again = start(child);
    news.push_back(again.ok() ? fmt::format("{} is started again", child.name)
                              : std::string(again.message()));
  }
}

void LocalCluster::start_again_who_is_missed(std::vector<std::string>& news) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const bool waiting = training_ && latest_.line().empty();  // the coordinator, for those that are missing
  for (Child& child : peers_) {
    const auto& missing = latest_.missing();
    // One that was started for this attempt may take its time.
    const bool missed = waiting && child.attempt < attempt_ &&
                        std::find(missing.begin(), missing.end(), child.name) != missing.end();
    if (!missed) child.missed_since.reset();
    if (missed && !child.missed_since) child.missed_since = now;
    if (!missed || now < *child.missed_since + kMissedLimit) continue;
    child.process.reset();  // kills it, if it still runs
    const absl::Status again = start(child);
    news.push_back(again.ok() ? fmt::format("{} did not come and is started again", child.name)
                              : std::string(again.message()));
  }
}

bool LocalCluster::here(const std::string& name) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Child& child) { return child.process && child.name == name; });
}

bool LocalCluster::any_replica_whole() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return here(name); });
  });
}

bool LocalCluster::all_ended() const {
  return std::none_of(peers_.begin(), peers_.end(),
                      [](const Child& child) { return child.process.has_value(); });
}

absl::Status LocalCluster::end_of_peers() const {
  if (first_error_) return *first_error_;
  if (failure_) return *failure_;
  return absl::OkStatus();
}

absl::Status LocalCluster::end_of_coordinator(const ChildProcess::End& end) const {
  // One that was killed is no error of what it was given.
  const auto ending = first_error_ ? roles::ending_of(*first_error_) : roles::Ending::kDone;
  const bool said = ending != roles::Ending::kUnsaid && ending != roles::Ending::kKilled;
  if (first_error_) return said ? absl::InvalidArgumentError(first_error_->message()) : *first_error_;
  const bool done = end.wait_status == 0;
  if (done && !lost_all_.empty())
    return absl::UnavailableError(fmt::format("every replica lost a worker; the last one {}", lost_all_));
  return done ? absl::OkStatus() : reason_of(*coordinator_, end);
}

void LocalCluster::stop(const std::string& why) {
  stopping_ = why;
  if (!connect()) return;
  grpc::ClientContext context;
  rpc::show_token(context, access_);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  wire::StopRequest request;
  request.set_why(why);
  wire::StopReply reply;
  rpc::call_once(stub_->Stop(&context), request, reply);
}

void LocalCluster::kill() {
  if (!stopping_) stopping_ = "stopped at once";
  if (coordinator_) coordinator_->signal(SIGKILL);
  if (leads()) return;
  for (Child& child : peers_) child.process.reset();
}

}  // namespace paceline::launch
