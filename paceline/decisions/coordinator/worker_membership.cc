#include "paceline/decisions/coordinator/worker_membership.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/counted.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/printable.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/coordinator/group_reduction.h"
#include "paceline/decisions/coordinator/reader_slots.h"
#include "paceline/decisions/coordinator/worker_orders.h"

namespace paceline::coordinator {

WorkerMembership::WorkerMembership(const AttemptOptions& options, Processes& processes, Course& course,
                                   Outbox& out)
    : options_(options),
      workers_(processes.workers),
      replicas_(processes.replicas),
      processes_(processes),
      course_(course),
      out_(out),
      heartbeats_(options.job, processes.servers, out),
      contributions_(options.job.reject_outliers, options.given_up, out),
      idle_(options.job.host_patience_s) {}

// ---- Those that come

void WorkerMembership::take(const WorkerSaid& said) {
  if (const auto* hello = std::get_if<WorkerHello>(&said.message))
    return on_hello(said.peer, hello->name, said.from);
  Worker* worker = workers_.find(said.peer);
  if (worker == nullptr) return;  // the worker was sent away while this was on its way
  worker->heard.heard(course_.at(), course_.running_since());
  if (const absl::Status status = on_message(*worker, said.message); !status.ok())
    send_away(said.peer, message_of(status));
}

void WorkerMembership::on_hello(WorkerPeer peer, const std::string& name, const std::string& from) {
  if (course_.turns_away(peer)) return;
  const std::optional<std::string> wrong = contributions_.why_given_up(name);
  const auto refusal = wrong ? Refusal{*wrong} : workers_.take_place(peer, name, course_.at());
  if (refusal) {
    out_.tell(fmt::format("refused a worker at {}: {}", from, refusal->why));
    return out_.refuse(peer, refusal->why, refusal->reason);
  }
  if (!course_.open()) return;  // the worker hears how the run ends, or it comes to the next attempt
  out_.send(peer, Welcome{.job_toml = options_.job_toml,
                          .started = options_.restart.has_value() || processes_.servers.all_started(),
                          .resumed = options_.restart.has_value(),
                          .run = options_.run});
}

absl::Status WorkerMembership::on_message(Worker& worker, const WorkerMessage& message) {
  return std::visit(Overloaded{
                        [&](const WorkerAttached& attached) { return on_attached(worker, attached); },
                        [&](const WorkerJoined&) { return on_joined(worker); },
                        [&](const RoleTaken& taken) { return on_role_taken(worker, taken); },
                        [&](const WorkerReady& ready) { return on_ready(worker, ready); },
                        [&](const OutOfMemory& said) { return on_out_of_memory(worker, said); },
                        [&](const TooFew& said) { return on_too_few(worker, said); },
                        [&](const TookLast&) {
                          worker.takes_last = false;
                          course_.finish_if_done();
                          return absl::OkStatus();
                        },
                        [&](const Heartbeat& beat) { return heard(worker.name, worker.host, beat); },
                        [](const Unreadable& unreadable) { return unreadable.why; },
                        [](const auto&) { return absl::OkStatus(); },
                    },
                    message);
}

absl::Status WorkerMembership::on_attached(Worker& worker, const WorkerAttached& attached) {
  if (worker.attached) return absl::FailedPreconditionError("attached twice");
  if (!processes_.job_facts) PACELINE_RETURN_IF_ERROR(learn_job(worker, attached));
  if (!processes_.job_facts) return absl::OkStatus();  // the run has failed
  PACELINE_RETURN_IF_ERROR(processes_.job_facts->agrees(worker.name, rank_of(worker), attached));
  if (const auto others = processes_.job_facts->other_constants(attached); !others.empty()) {
    out_.tell_and_remember(
        fmt::format("{} built '{}'{} with other values than the others, and it is not trained; all use one "
                    "worker's values: load or seed it in the same way everywhere",
                    worker.name, others[0],
                    others.size() > 1 ? fmt::format(" and {} more tensors", others.size() - 1) : ""));
  }
  PACELINE_RETURN_IF_ERROR(check_first_weights(worker, attached));
  worker.attached = attached;
  course_.start_servers_if_ready();
  send_boards(worker);
  return absl::OkStatus();
}

// Servers begin with the weights of a worker on their own host. A copy of another host's shard would differ from it, in
// silence, until that host is lost.
absl::Status WorkerMembership::check_first_weights(const Worker& worker, const WorkerAttached& attached) {
  const JobFacts& facts = *processes_.job_facts;
  if (!facts.other_weights(rank_of(worker), attached)) return absl::OkStatus();
  const std::string what = fmt::format("{} on host {} begins with other weights than {}", worker.name,
                                       rank_of(worker), facts.first());
  constexpr char kWayOut[] =
      "draw them on the CPU, from the same seed, or give all hosts one file with --set model.weights=FILE";
  if (options_.job.copies > 1)
    return absl::InvalidArgumentError(
        fmt::format("{}, and with cluster.copies = {} hosts keep copies of each other's; {}", what,
                    options_.job.copies, kWayOut));
  out_.tell_and_remember(fmt::format(
      "{}, and servers begin with those of their own host; if you do not want that, {}", what, kWayOut));
  return absl::OkStatus();
}

// An error is the worker's fault; what is wrong with the job ends the run.
absl::Status WorkerMembership::learn_job(const Worker& worker, const WorkerAttached& attached) {
  if (attached.dataset_size <= 0) return absl::InvalidArgumentError("the data set is empty");
  absl::Status status = options_.job.check_model(attached.layout);
  if (status.ok()) status = processes_.servers.split(attached.layout);
  if (status.ok())
    status = course_.make_controller(attached.dataset_size, attached.data_order, !attached.card.empty());
  if (!status.ok()) {
    course_.fail(status);
    return absl::OkStatus();
  }
  processes_.job_facts.emplace(worker.name, rank_of(worker), attached);
  return absl::OkStatus();
}

void WorkerMembership::send_boards(Worker& worker) {
  if (!processes_.servers.all_started() || !worker.attached || worker.boards_sent) return;
  worker.boards_sent = true;
  out_.send(worker.peer, processes_.servers.boards(worker.host, reader_slot(worker), worker.attached->card));
}

void WorkerMembership::send_boards() {
  for (auto& [peer, worker] : workers_.all()) send_boards(worker);
}

absl::Status WorkerMembership::on_joined(Worker& worker) {
  if (!worker.boards_sent || worker.joined) return absl::FailedPreconditionError("joined out of turn");
  worker.joined = true;
  if (Start* start = course_.start()) start->came(worker.device);
  gone_before_start_.erase(worker.device);
  if (course_.plans_anew())
    PACELINE_RETURN_IF_ERROR(
        tell_controller(control::DeviceJoined{worker.device.value(), memory_of(worker)}));
  // A plan that has no room is about to be replaced.
  if (course_.start() != nullptr && course_.controller()->searching()) return absl::OkStatus();
  if (const LiveReplica* replica = replicas_.form(worker, workers_)) give_role(*replica);
  return absl::OkStatus();
}

// Devices of one card share what it has.
std::int64_t WorkerMembership::memory_of(const Worker& worker) const {
  constexpr std::int64_t kLeast = 1'000'000;  // a card that is full has no room for any layer
  const auto& own = worker.attached->card_memory;
  if (!own || own->free_bytes <= 0 || !options_.job.replanner) return 0;
  const auto& devices = options_.job.replanner->problem.cluster.devices;
  const planner::Device& planned = devices[static_cast<std::size_t>(worker.device.value())];
  if (planned.memory_bytes != planner::Device::kNoLimit) return 0;
  std::int64_t sharing = 0, free = own->free_bytes;
  for (const auto& [peer, other] : workers_.all()) {
    if (other.host != worker.host || !other.attached || !other.attached->card_memory) continue;
    if (other.attached->card_memory->card != own->card) continue;
    ++sharing;
    free = std::max(free, other.attached->card_memory->free_bytes);  // the first one met no other there
  }
  return std::max(kLeast, free / std::max<std::int64_t>(1, sharing) - options_.job.card_reserve);
}

// Gives a role to the first device that has none.
void WorkerMembership::give_role(const LiveReplica& replica) {
  out_.send(replica.workers[replica.taken.size()]->peer, next_role(replica, replicas_.plan()));
}

absl::Status WorkerMembership::on_role_taken(Worker& worker, const RoleTaken& taken) {
  if (worker.attached && !taken.gradient_path.empty()) worker.attached->gradient_path = taken.gradient_path;
  if (!worker.replica || *worker.replica != taken.replica) return absl::OkStatus();  // the replica has ended
  LiveReplica& replica = *replicas_.find(*worker.replica);
  if (place_of(replica, worker) != replica.taken.size())
    return absl::FailedPreconditionError("took a role out of turn");
  PACELINE_RETURN_IF_ERROR(check_taken(next_role(replica, replicas_.plan()), taken));
  replica.taken.push_back(taken);
  if (replica.taken.size() < replica.workers.size()) {
    give_role(replica);
    return absl::OkStatus();
  }
  replica.told_servers = true;
  const Worker& first = *replica.workers.front();
  processes_.servers.tell(
      MapGradient{replica.id, first.attached->gradient_path, first.host, first.attached->card});
  return absl::OkStatus();
}

// From here on the replica's gradients can be committed even if its worker dies, because every server has
// mapped them.
absl::Status WorkerMembership::mapped(ServerId server, const ServerMapped& mapped) {
  LiveReplica* replica = replicas_.find(mapped.replica);
  if (replica == nullptr || !replica->told_servers || replica->whole) return absl::OkStatus();
  if (!mapped.error.empty()) {
    send_away(replica->workers.front()->peer, fmt::format("server {} cannot read its gradient: {}", server,
                                                          printable(mapped.error, kLongestError)));
    return absl::OkStatus();
  }
  replica->mapped_by.insert(server);
  replica->whole = replica->mapped_by.size() == processes_.servers.size();
  if (!replica->whole || (course_.plans_anew() && !replicas_.all_whole())) return absl::OkStatus();
  return join_those_that_are_whole();
}

// The place of a replica in words: "w2", or "w0+w1" for a pipeline.
std::string WorkerMembership::name_of(const planner::PlannedReplica& planned) const {
  std::vector<DevicePlace> devices(planned.devices.begin(), planned.devices.end());
  return fmt::to_string(fmt::join(workers_.names(devices), "+"));
}

absl::Status WorkerMembership::join_those_that_are_whole() {
  for (auto& [id, replica] : replicas_.all()) {
    if (!replica.whole || std::exchange(replica.joined, true)) continue;
    const planner::PlannedReplica& planned = replicas_.plan().replicas[replica.place];
    control::ReplicaJoined fact{id, name_of(planned), planned.samples};
    if (course_.controller()->follows_a_plan()) fact.place = static_cast<std::int32_t>(replica.place);
    PACELINE_RETURN_IF_ERROR(tell_controller(std::move(fact)));
  }
  return absl::OkStatus();
}

absl::Status WorkerMembership::on_ready(const Worker& worker, const WorkerReady& ready) {
  PACELINE_RETURN_IF_ERROR(check_ready(ready));
  auto learnt = processes_.shard_lengths.learn(worker.name, rank_of(worker), ready.lengths);
  if (!learnt.ok()) {
    course_.fail(learnt.status());
    return absl::OkStatus();
  }
  if (!learnt->empty()) out_.put(NoteShardLengths{*std::move(learnt)});
  if (!counts(worker, ready)) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(auto fact, replicas_.done(worker, ready));
  if (!fact) return absl::OkStatus();
  contributions_.iteration_had(fact->loss);
  if (!course_.controller()->follows_a_plan()) fact->worked.clear();
  early_.ready(fact->replica, fact->clock);
  PACELINE_RETURN_IF_ERROR(tell_controller(*std::move(fact)));
  send_early_if_it_waits();
  return absl::OkStatus();
}

HostRank WorkerMembership::rank_of(const Worker& worker) const {
  const std::vector<HostRank>& ranks = options_.job.ranks;
  const auto place = static_cast<std::size_t>(worker.host.value());
  return place < ranks.size() ? ranks[place] : HostRank(worker.host.value());
}

// The planner takes the device's memory for smaller, and gives it another stage.
absl::Status WorkerMembership::on_out_of_memory(const Worker& worker, const OutOfMemory& said) {
  const std::string why = printable(said.why, kLongestError);
  if (!course_.plans_anew()) return absl::ResourceExhaustedError(why);
  const bool current = worker.replica && *worker.replica == said.replica && course_.training();
  if (!current) return absl::OkStatus();
  out_.tell_and_remember(
      fmt::format("{}: {}. The planner looks for stages that need less memory there", worker.name, why));
  const DevicePlace device = worker.device;
  const LiveReplica replica = replicas_.dissolve(said.replica);
  leave(replica, fmt::format("{} has no memory for its stage", worker.name));
  follow_plans();
  if (course_.open()) tell(control::DeviceOutOfMemory{device.value(), replica.lease.size()});
  return absl::OkStatus();
}

absl::Status WorkerMembership::on_too_few(const Worker& worker, const TooFew& said) {
  const LiveReplica* replica = worker.replica ? replicas_.find(*worker.replica) : nullptr;
  const bool helps = replica != nullptr && replica->joined && replica->workers.size() == 1 &&
                     course_.controller()->could_be_larger(replica->id, said.least);
  // The worker's own error then says more to people.
  if (!helps) return absl::FailedPreconditionError("its program failed");
  const WorkerPeer peer = worker.peer;
  const std::string steps =
      replica->steps > 0 ? fmt::format(" in {}", counted(replica->steps, "local step")) : "";
  const std::string why =
      fmt::format("its program failed on {}{}", counted(replica->lease.size(), "sample"), steps);
  out_.tell_and_remember(
      fmt::format("{}: {}. From now on a batch has at least {} samples, and {} starts its program again",
                  worker.name, printable(said.why, kLongestError), said.least, worker.name));
  out_.give_up(peer, why);
  remove(peer, why, said.least);
  return absl::OkStatus();
}

// Every server hears it, as it hears everything: keepers learn that earlier ones do not count any more.
void WorkerMembership::send_early_if_it_waits() {
  if (!course_.training() || !options_.job.sends_early) return;
  if (const auto early = early_.announce(replicas_)) processes_.servers.tell(*early);
}

// The first device speaks for its replica.
bool WorkerMembership::counts(const Worker& worker, const WorkerReady& ready) {
  if (!worker.replica || *worker.replica != ready.replica) return true;  // the replica has ended
  const LiveReplica& replica = *replicas_.find(*worker.replica);
  if (!replica.joined || place_of(replica, worker) != 0) return true;
  const bool alone = replica.workers.size() == 1;
  const auto judged = contributions_.judge({.worker = worker.name,
                                            .lease = replica.lease,
                                            .version = ready.base,
                                            .loss = alone ? std::optional(ready.loss) : std::nullopt,
                                            .not_finite = printable(ready.not_finite, kLongestError),
                                            .norm = ready.norm},
                                           static_cast<std::size_t>(joined_replicas()));
  switch (judged.verdict) {
    case Contributions::Verdict::kGood:
      return true;
    case Contributions::Verdict::kDiscard:
      discard(worker, judged.why);
      return false;
    case Contributions::Verdict::kGiveUpWorker:
      send_away(worker.peer, judged.why);
      return false;
    case Contributions::Verdict::kEndRun:
      course_.fail(absl::OutOfRangeError(judged.why));
      return false;
  }
  return true;
}

// Its replica leaves, which gives its samples back, and another one of the same workers comes.
void WorkerMembership::discard(const Worker& worker, const std::string& why) {
  const LiveReplica replica = replicas_.dissolve(*worker.replica);
  leave(replica, why);
  follow_plans();
  if (!course_.open()) return;
  if (const LiveReplica* next = replicas_.form(worker, workers_)) give_role(*next);
}

// ---- Those that leave

void WorkerMembership::send_away(WorkerPeer peer, const std::string& why) {
  out_.refuse(peer, why);
  remove(peer, why);
}

void WorkerMembership::ban(const Worker& worker, const std::string& why) {
  contributions_.give_up(worker.name, why);
  out_.refuse(worker.peer, why);
}

void WorkerMembership::refused(ReplicaId replica, const absl::Status& why) {
  const LiveReplica* const live = replicas_.find(replica);
  if (live != nullptr && !live->workers.empty()) send_away(live->workers.front()->peer, message_of(why));
}

// A worker that is silent may have said just now, in memory, that its gradient is ready. If a server has used it, the
// worker's word to this process is on the way, or the worker is wrong.
void WorkerMembership::give_up_silent() {
  gives_up_silent_ = !workers_.silent(course_.at()).empty();
  if (gives_up_silent_ && (course_.settle() || !course_.awaits_answers())) give_up_silent_now();
}

void WorkerMembership::give_up_silent_now() {
  if (!std::exchange(gives_up_silent_, false)) return;
  for (const auto& [peer, why] : workers_.silent(course_.at())) {
    out_.give_up(peer, why);
    remove(peer, why);
  }
}

void WorkerMembership::remove(WorkerPeer peer, const std::string& why,
                              std::optional<std::int64_t> least_batch) {
  const Worker* worker = workers_.find(peer);
  if (worker == nullptr) return;
  const bool open = course_.open();
  if (open) out_.tell(fmt::format("{} left: {}", worker->name, why));
  std::string of_stage = why;
  std::optional<LiveReplica> replica;
  if (worker->replica) replica = take_out(*worker, of_stage);
  const Worker gone = *workers_.remove(peer);
  if (!open) return;
  if (replica) leave(*replica, of_stage, least_batch);
  follow_plans();
  if (gone.boards_sent) processes_.servers.tell(ReleaseReader{reader_slot(gone)});
  if (!course_.plans_anew()) return;
  if (course_.started()) return tell(control::DeviceLeft{gone.device.value()});
  if (gone.joined) gone_before_start_.insert(gone.device);
}

// Dissolves the worker's replica, and takes the worker out of it. If it computed a stage, `why` says which one.
LiveReplica WorkerMembership::take_out(const Worker& worker, std::string& why) {
  LiveReplica replica = replicas_.dissolve(*worker.replica);
  if (replica.workers.size() > 1)
    why = fmt::format("stage {}, {}: {}", stage_at(replica, place_of(replica, worker)), worker.name, why);
  std::erase(replica.workers, &worker);
  return replica;
}

// `workers` are those that are still here.
void WorkerMembership::leave(const LiveReplica& replica, const std::string& why,
                             std::optional<std::int64_t> least_batch) {
  for (const Worker* worker : replica.workers) out_.send(worker->peer, Dissolve{replica.id});
  if (!replica.told_servers) return;
  if (replica.joined) {
    if (options_.job.sums_in_memory) {
      for (auto& [other, remaining] : workers_.all()) remaining.left.push_back(replica.id);
    }
    const absl::Status status = course_.take(control::ReplicaLeft{replica.id, why, least_batch});
    PACELINE_CHECK(status.ok(), "{}", message_of(status));
  }
  // The order comes after commits that the leaving caused: the shards read orders in sequence.
  course_.unmap_gradient(replica.id);
}

// ---- Facts

absl::Status WorkerMembership::tell_controller(decltype(control::Fact::what) what) {
  PACELINE_RETURN_IF_ERROR(course_.take(std::move(what)));
  follow_plans();
  return absl::OkStatus();
}

void WorkerMembership::tell(decltype(control::Fact::what) what) {
  const absl::Status told = tell_controller(std::move(what));
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
}

absl::Status WorkerMembership::heard(const std::string& name, HostPlace host, const Heartbeat& beat) {
  note_process(name, beat);
  if (!course_.plans_anew()) return absl::OkStatus();
  for (const control::LinkMeasured& fact : heartbeats_.links(name, host, beat)) {
    if (course_.started()) PACELINE_RETURN_IF_ERROR(tell_controller(fact));
  }
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
