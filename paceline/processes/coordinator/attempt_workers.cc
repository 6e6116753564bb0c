// How an attempt deals with workers, the replicas that they form, and plans.
#include "paceline/processes/coordinator/attempt.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/counted.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/formats/config/planning.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/coordinator/group_reduction.h"
#include "paceline/processes/coordinator/reader_slots.h"
#include "paceline/processes/coordinator/worker_orders.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::coordinator {

namespace {
// The limit is that long because policies predict hundreds of iterations from one.
constexpr Duration kLongestCompute = std::chrono::days(30);

absl::Status check(const wire::WorkerReady& ready) {
  if (ready.worked_ns() < 0 || ready.worked_ns() > ready.compute_ns()) {
    return absl::InvalidArgumentError(
        fmt::format("worked for {} ns of {}", ready.worked_ns(), ready.compute_ns()));
  }
  if (Duration(ready.compute_ns()) > kLongestCompute) {
    return absl::InvalidArgumentError(
        fmt::format("said that an iteration took {} s", to_seconds(Duration(ready.compute_ns()))));
  }
  if (ready.loading_ns() < 0 || ready.pulling_ns() < 0 || ready.loading_ns() > ready.compute_ns() ||
      ready.pulling_ns() > ready.compute_ns() - ready.loading_ns()) {
    return absl::InvalidArgumentError(fmt::format("waited {} ns for samples and {} ns for weights, of {}",
                                                  ready.loading_ns(), ready.pulling_ns(),
                                                  ready.compute_ns()));
  }
  if (!plausible(Metrics(ready.metrics().begin(), ready.metrics().end())))
    return absl::InvalidArgumentError("sent metrics that no program can have sent");
  if (ready.has_weight() && !(std::isfinite(ready.weight()) && ready.weight() >= 0))
    return absl::InvalidArgumentError(fmt::format("gave its gradient the weight {}", ready.weight()));
  if (!std::isfinite(ready.norm()) || ready.norm() < 0)
    return absl::InvalidArgumentError("sent a gradient of an impossible norm");
  return absl::OkStatus();
}

}  // namespace

// ---- Workers ----

void Attempt::on(const WorkerSaid& said) {
  if (saving_copies()) return;  // the worker comes again, to the next attempt
  if (said.message.has_hello()) return on_hello(said.peer, said.message.hello().name(), said.from);
  Worker* worker = workers_.find(said.peer);
  if (worker == nullptr) return;  // the worker was sent away while this was on its way
  worker->heard.heard(at_);
  if (const absl::Status status = on_message(*worker, said.message); !status.ok())
    send_away(said.peer, message_of(status));
}

void Attempt::on_hello(WorkerPeer peer, const std::string& name, const std::string& from) {
  if (disconnecting()) return out_.send_disconnect(peer, disconnect_order());
  const std::optional<std::string> wrong = contributions_.why_given_up(name);
  const auto refusal = wrong ? Refusal{*wrong} : workers_.take_place(peer, name, at_);
  if (refusal) {
    out_.tell(fmt::format("refused a worker at {}: {}", from, refusal->why));
    return out_.refuse(peer, refusal->why, refusal->reason);
  }
  if (ending()) return;  // the worker hears how the run ends, or it comes to the next attempt
  wire::WorkerOrder order;
  order.mutable_welcome()->set_job_toml(options_.job_toml);
  order.mutable_welcome()->set_started(options_.restart.has_value() || servers_.all_started());
  out_.send(peer, std::move(order));
}

absl::Status Attempt::on_message(Worker& worker, const wire::WorkerMessage& message) {
  switch (message.what_case()) {
    case wire::WorkerMessage::kAttached:
      return on_attached(worker, message.attached());
    case wire::WorkerMessage::kJoined:
      return on_joined(worker);
    case wire::WorkerMessage::kRoleTaken:
      return on_role_taken(worker, message.role_taken());
    case wire::WorkerMessage::kReady:
      return on_ready(worker, message.ready());
    case wire::WorkerMessage::kTooFew:
      return on_too_few(worker, message.too_few());
    case wire::WorkerMessage::kTookLast:
      worker.takes_last = false;
      finish_if_done();
      return absl::OkStatus();
    case wire::WorkerMessage::kHeartbeat:
      note_process(worker.name, message.heartbeat());
      return note_links(worker.name, worker.host, message.heartbeat());
    default:
      return absl::OkStatus();
  }
}

absl::Status Attempt::on_attached(Worker& worker, const wire::WorkerAttached& attached) {
  if (worker.attached) return absl::FailedPreconditionError("attached twice");
  if (!job_facts_) PACELINE_RETURN_IF_ERROR(learn_job(attached));
  if (!job_facts_) return absl::OkStatus();  // the run has failed
  PACELINE_RETURN_IF_ERROR(job_facts_->agrees(worker.name, attached));
  if (const auto others = job_facts_->other_constants(attached); !others.empty()) {
    out_.tell_and_remember(
        fmt::format("{} built '{}'{} with other values than the others, and it is not trained; all use one "
                    "worker's values: load or seed it in the same way everywhere",
                    worker.name, others[0],
                    others.size() > 1 ? fmt::format(" and {} more tensors", others.size() - 1) : ""));
  }
  worker.attached = attached;
  start_servers_if_ready();
  send_boards(worker);
  return absl::OkStatus();
}

// An error is the worker's fault; what is wrong with the job ends the run.
absl::Status Attempt::learn_job(const wire::WorkerAttached& attached) {
  PACELINE_ASSIGN_OR_RETURN(const ps::Layout layout, from_wire(attached.layout()));
  if (attached.dataset_size() <= 0) return absl::InvalidArgumentError("the data set is empty");
  PACELINE_ASSIGN_OR_RETURN(DataOrder data_order, wire::from_wire(attached.data_order()));
  absl::Status status = ps::check_groups(layout, options_.job.groups);
  if (status.ok()) status = servers_.split(layout);
  if (status.ok()) status = make_controller(attached.dataset_size(), std::move(data_order));
  if (!status.ok()) {
    fail(status);
    return absl::OkStatus();
  }
  job_facts_.emplace(attached);
  return absl::OkStatus();
}

absl::Status Attempt::make_controller(std::int64_t dataset_size, DataOrder data_order) {
  control::ControllerConfig config = config::controller_config(options_.job, dataset_size);
  config.data_order = std::move(data_order);
  if (const auto& restart = options_.restart)
    PACELINE_RETURN_IF_ERROR(same_data(restart->data_order, config.data_order, restart->state.ledger.next));
  config.keep_states = replication_.has_value();
  std::unique_ptr<control::Replanner> replanner;
  if (auto planning = config::replanner_options(options_.job, config::RunTime::kWall)) {
    PACELINE_ASSIGN_OR_RETURN(replanner, control::Replanner::create(*std::move(planning)));
  }
  auto controller = std::make_unique<TimedController>(
      config, policy::make_policy(options_.job.policy), out_,
      [this](const control::Order& order, const TimedController::ReleasedNext& released) {
        carry_out(order, released);
      },
      replication_.has_value(), std::move(replanner));
  if (options_.restart)
    PACELINE_RETURN_IF_ERROR(controller->restore(options_.restart->state, options_.restart->elapsed));
  controller_ = std::move(controller);
  Begin begin{std::move(config), controller_->bounds()};
  if (options_.restart) begin.state = options_.restart->state;
  out_.put(std::move(begin));
  return absl::OkStatus();
}

void Attempt::send_boards(Worker& worker) {
  if (!servers_.all_started() || !worker.attached || worker.boards_sent) return;
  worker.boards_sent = true;
  wire::WorkerOrder order;
  *order.mutable_boards() = servers_.boards(worker.host, reader_slot(worker));
  out_.send(worker.peer, std::move(order));
}

absl::Status Attempt::on_joined(Worker& worker) {
  if (!worker.boards_sent || worker.joined) return absl::FailedPreconditionError("joined out of turn");
  worker.joined = true;
  missing_.came(worker.device);
  gone_before_start_.erase(worker.device);
  if (plans_anew()) PACELINE_RETURN_IF_ERROR(tell_controller(control::DeviceJoined{worker.device.value()}));
  if (const LiveReplica* replica = replicas_.form(worker, workers_)) give_role(*replica);
  return absl::OkStatus();
}

// Gives a role to the first device that has none.
void Attempt::give_role(const LiveReplica& replica) {
  out_.send(replica.workers[replica.taken.size()]->peer, role_order(replica, replicas_.plan()));
}

absl::Status Attempt::on_role_taken(Worker& worker, const wire::RoleTaken& taken) {
  if (worker.attached && !taken.gradient_path().empty())
    worker.attached->set_gradient_path(taken.gradient_path());
  if (!worker.replica || worker.replica->value() != taken.replica())
    return absl::OkStatus();  // the replica has ended
  LiveReplica& replica = *replicas_.find(*worker.replica);
  if (place_of(replica, worker) != replica.taken.size())
    return absl::FailedPreconditionError("took a role out of turn");
  PACELINE_RETURN_IF_ERROR(check_taken(role_order(replica, replicas_.plan()).role(), taken));
  replica.taken.push_back(taken);
  if (replica.taken.size() < replica.workers.size()) {
    give_role(replica);
    return absl::OkStatus();
  }
  replica.told_servers = true;
  wire::ServerOrder map;
  map.mutable_map_gradient()->set_replica(replica.id.value());
  map.mutable_map_gradient()->set_path(replica.workers.front()->attached->gradient_path());
  map.mutable_map_gradient()->set_host(replica.workers.front()->host.value());
  servers_.tell(map);
  return absl::OkStatus();
}

// From here on the replica's gradients can be committed even if its worker dies, because every server has
// mapped them.
absl::Status Attempt::on_mapped(ServerId server, const wire::ServerMapped& mapped) {
  LiveReplica* replica = replicas_.find(ReplicaId(mapped.replica()));
  if (replica == nullptr || !replica->told_servers || replica->whole) return absl::OkStatus();
  if (!mapped.error().empty()) {
    send_away(replica->workers.front()->peer,
              fmt::format("server {} cannot read its gradient: {}", server,
                          store::printable(mapped.error(), store::kLongestError)));
    return absl::OkStatus();
  }
  replica->mapped_by.insert(server);
  replica->whole = replica->mapped_by.size() == servers_.size();
  if (!replica->whole || (plans_anew() && !replicas_.all_whole())) return absl::OkStatus();
  return join_those_that_are_whole();
}

absl::Status Attempt::join_those_that_are_whole() {
  for (auto& [id, replica] : replicas_.all()) {
    if (!replica.whole || std::exchange(replica.joined, true)) continue;
    ++told_of_;
    const planner::PlannedReplica& planned = replicas_.plan().replicas[replica.place];
    control::ReplicaJoined fact{id, config::replica_name(options_.job, planned), planned.samples};
    if (controller_->follows_a_plan()) fact.place = static_cast<std::int32_t>(replica.place);
    PACELINE_RETURN_IF_ERROR(tell_controller(std::move(fact)));
  }
  return absl::OkStatus();
}

absl::Status Attempt::on_ready(const Worker& worker, const wire::WorkerReady& ready) {
  PACELINE_RETURN_IF_ERROR(check(ready));
  if (!counts(worker, ready)) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(auto fact, replicas_.done(worker, ready));
  if (!fact) return absl::OkStatus();
  contributions_.iteration_had(fact->loss);
  if (!controller_->follows_a_plan()) fact->worked.clear();
  early_.ready(fact->replica, fact->clock);
  PACELINE_RETURN_IF_ERROR(tell_controller(*std::move(fact)));
  send_early_if_it_waits();
  return absl::OkStatus();
}

absl::Status Attempt::on_too_few(const Worker& worker, const wire::TooFew& said) {
  const LiveReplica* replica = worker.replica ? replicas_.find(*worker.replica) : nullptr;
  const bool helps = replica != nullptr && replica->joined && replica->workers.size() == 1 &&
                     controller_->could_be_larger(replica->id, said.least());
  // The worker's own error then says more to people.
  if (!helps) return absl::FailedPreconditionError("its program failed");
  const WorkerPeer peer = worker.peer;
  const std::string why = fmt::format("its program failed on {}", counted(replica->lease.size(), "sample"));
  out_.tell_and_remember(fmt::format(
      "{}: {}. From now on a batch has at least {} samples, and {} starts its program again", worker.name,
      store::printable(said.why(), store::kLongestError), said.least(), worker.name));
  out_.give_up(peer, why);
  remove_worker(peer, why, said.least());
  return absl::OkStatus();
}

// Every server hears it, as it hears everything: keepers learn that earlier ones do not count any more.
void Attempt::send_early_if_it_waits() {
  if (!training() || !config::sends_early(options_.job)) return;
  const auto early = early_.announce(replicas_);
  if (!early) return;
  wire::ServerOrder order;
  *order.mutable_send_early() = *early;
  servers_.tell(order);
}

// The first device speaks for its replica.
bool Attempt::counts(const Worker& worker, const wire::WorkerReady& ready) {
  if (!worker.replica || worker.replica->value() != ready.replica()) return true;  // the replica has ended
  const LiveReplica& replica = *replicas_.find(*worker.replica);
  if (!replica.joined || place_of(replica, worker) != 0) return true;
  const bool alone = replica.workers.size() == 1;
  const auto& all = replicas_.all();
  const auto here = std::count_if(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
  const auto judged =
      contributions_.judge({.worker = worker.name,
                            .lease = replica.lease,
                            .version = Version(ready.base()),
                            .loss = alone ? std::optional(ready.loss()) : std::nullopt,
                            .not_finite = store::printable(ready.not_finite(), store::kLongestError),
                            .norm = ready.norm()},
                           static_cast<std::size_t>(here));
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
      fail(absl::OutOfRangeError(judged.why));
      return false;
  }
  return true;
}

// Its replica leaves, which gives its samples back, and another one of the same workers comes.
void Attempt::discard(const Worker& worker, const std::string& why) {
  const LiveReplica replica = replicas_.dissolve(*worker.replica);
  leave(replica, why);
  follow_plans();
  if (ending()) return;
  if (const LiveReplica* next = replicas_.form(worker, workers_)) give_role(*next);
}

// ---- Plans ----

void Attempt::on(const PlanFound& found) {
  if (saving_copies() || ending()) return;
  const absl::Status told = tell_controller(found.result);
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
  begin_with_those_here();
}

// The orders of a fact are carried out first. A plan that is followed gives other facts, and their orders may
// have another plan: it has its turn here too.
void Attempt::follow_plans() {
  while (!plans_.empty()) {
    const auto next = std::move(plans_.front());
    plans_.pop_front();
    std::visit([this](const auto& one) { follow(one); }, next);
  }
}

void Attempt::follow(const control::NoPlan& none) {
  no_plan_ =
      absl::ResourceExhaustedError(fmt::format("the devices that are left cannot go on: {}", none.why));
  stop("no plan is possible any more");
}

// A replica that was just released gives its samples back: it has hardly begun.
void Attempt::follow(const control::PlanAdopted& adopted) {
  if (planner::same_stages(adopted.plan, replicas_.plan())) return;
  const std::string why = "re-planned: " + adopted.why;
  while (!replicas_.all().empty()) leave(replicas_.dissolve(replicas_.all().begin()->first), why);
  if (ending()) return;
  replicas_.follow(adopted.plan);
  for (const planner::PlannedReplica& planned : replicas_.plan().replicas) {
    const Worker* worker = workers_.at(DevicePlace(planned.devices.front()));
    const LiveReplica* replica = worker == nullptr ? nullptr : replicas_.form(*worker, workers_);
    if (replica != nullptr) give_role(*replica);
  }
  out_.tell_and_remember(adopted.line);
}

void Attempt::on(const WorkerGone& gone) {
  remove_worker(gone.peer, "its stream ended");
  finish_if_done();
}

void Attempt::send_away(WorkerPeer peer, const std::string& why) {
  out_.refuse(peer, why);
  remove_worker(peer, why);
}

void Attempt::remove_worker(WorkerPeer peer, const std::string& why,
                            std::optional<std::int64_t> least_batch) {
  const Worker* worker = workers_.find(peer);
  if (worker == nullptr) return;
  if (!ending() && !saving_copies()) out_.tell(fmt::format("{} left: {}", worker->name, why));
  std::optional<LiveReplica> replica;
  std::string of_stage = why;
  if (worker->replica) {
    replica = replicas_.dissolve(*worker->replica);
    if (replica->workers.size() > 1)
      of_stage =
          fmt::format("stage {}, {}: {}", stage_at(*replica, place_of(*replica, *worker)), worker->name, why);
    std::erase(replica->workers, worker);
  }
  const Worker gone = *workers_.remove(peer);
  if (ending() || saving_copies()) return;
  if (replica) leave(*replica, of_stage, least_batch);
  follow_plans();
  wire::ServerOrder order;
  order.mutable_release_reader()->set_reader(reader_slot(gone));
  if (gone.boards_sent) servers_.tell(order);
  if (!plans_anew()) return;
  if (!started()) {
    if (gone.joined) gone_before_start_.insert(gone.device);
    return;
  }
  const absl::Status told = tell_controller(control::DeviceLeft{gone.device.value()});
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
}

// `workers` are those that are still here.
void Attempt::leave(const LiveReplica& replica, const std::string& why,
                    std::optional<std::int64_t> least_batch) {
  for (const Worker* worker : replica.workers) out_.send(worker->peer, dissolve_order(replica.id));
  if (!replica.told_servers) return;
  if (replica.joined) {
    if (reduces_in_memory(options_.job)) {
      for (auto& [other, remaining] : workers_.all()) remaining.left.push_back(replica.id);
    }
    const absl::Status status = controller_->take(at_, control::ReplicaLeft{replica.id, why, least_batch});
    PACELINE_CHECK(status.ok(), "{}", message_of(status));
  }
  // The order comes after commits that the leaving caused: the shards read orders in sequence.
  wire::ServerOrder unmap;
  unmap.mutable_unmap_gradient()->set_replica(replica.id.value());
  servers_.tell(unmap);
}

}  // namespace paceline::coordinator
