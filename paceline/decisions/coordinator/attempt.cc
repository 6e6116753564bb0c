#include "paceline/decisions/coordinator/attempt.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/counted.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/coordinator/apply_order.h"
#include "paceline/decisions/coordinator/group_reduction.h"
#include "paceline/decisions/coordinator/measured_time.h"
#include "paceline/decisions/coordinator/worker_orders.h"

namespace paceline::coordinator {

namespace {

// Weights may go to members as they are made if the commit releases them. One that a bound holds back waits for
// a later version.
void say_who_waits(Apply& apply, const TimedController::ReleasedNext& released) {
  for (Apply::Member& member : apply.members) member.waits = released.contains(member.replica);
}

}  // namespace

Attempt::Attempt(AttemptOptions options, SteadyTime start)
    : options_(std::move(options)),
      processes_(options_, out_),
      course_(
          options_, processes_, out_,
          [this](const auto& order, const auto& released) { carry_out(order, released); },
          {.refused = [this](ReplicaId replica, const absl::Status& why) { workers_.refused(replica, why); },
           .settled =
               [this] {
                 workers_.give_up_silent_now();
                 course_.write_waiting_checkpoint();
               }}),
      workers_(options_, processes_, course_, out_),
      servers_(options_, processes_, course_, workers_, out_),
      hearing_(start) {}

std::vector<Action> Attempt::take(Event event) {
  course_.begin_event(event.at, hearing_.running_since(event.at));
  // A process that comes now comes again, to the next attempt.
  if (can_go_on()) return {};
  std::visit([this](const auto& what) { on(what); }, event.what);
  servers_.lose_files_of_missed();
  return out_.take();
}

// ---- Events

// A worker that comes while copies are saved comes again, to the next attempt.
void Attempt::on(const WorkerSaid& said) {
  if (!course_.saving_copies()) workers_.take(said);
}

void Attempt::on(const WorkerGone& gone) {
  workers_.leave(gone.peer);
  course_.finish_if_done();
}

void Attempt::on(const TimePassed&) {
  const bool hears = hearing_.is_good(course_.at());
  if (hears) give_up_silent();
  if (hears) servers_.give_up_missed(hearing_.listened());
  if (Start* start = course_.start())
    go_on_starting(start->time_passed(course_.at(), hearing_.listened(), hears));
  workers_.give_up_without_replicas(hearing_.listened());
  workers_.tell_of_gone_before_start();
  course_.time_passed();
}

void Attempt::on(const WokeUp&) {
  if (course_.controller() == nullptr) return;
  const absl::Status status = workers_.tell_controller(control::TimerRang{});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

// ---- The evaluator

void Attempt::on(const EvaluatorSaid& said) {
  if (course_.saving_copies()) return;
  Measuring& measuring = processes_.measuring;
  const auto* const beat = std::get_if<Heartbeat>(&said.message);
  if (measuring.is(said.peer)) {
    measuring.hear(course_.at());
    if (beat != nullptr) workers_.note_process("evaluator", *beat);
  }
  const bool hello = std::holds_alternative<EvaluatorHello>(said.message);
  if (hello && course_.turns_away(said.peer)) return;
  const bool welcome = hello && measuring.take(said.peer, options_.job_toml, course_.at());
  const auto* const prepared = std::get_if<EvaluatorPrepared>(&said.message);
  const bool is_prepared = prepared != nullptr && measuring.is(said.peer);
  if (is_prepared) measuring.prepared(*prepared);
  const auto* const evaluated = std::get_if<Evaluated>(&said.message);
  const bool measured = evaluated != nullptr && measuring.is(said.peer);
  if (measured) on_evaluated(*evaluated);
  if (!welcome && !is_prepared && !measured && beat == nullptr) out_.put(HangUp{said.peer});
}

void Attempt::on_evaluated(const Evaluated& message) {
  const auto measured = processes_.measuring.evaluated(message);
  if (!measured) return;
  if (is_time(message.took)) {
    out_.put(control::SideWork{.at = course_.now(),
                               .kind = control::SideWork::Kind::kEvaluation,
                               .version = measured->result.version,
                               .took = message.took});
  }
  out_.put(measured->result);
  // A person's evaluation out of turn changes nothing in the training.
  if (!measured->out_of_turn && options_.job.stop_at &&
      control::meets(*options_.job.stop_at, measured->result))
    course_.stop("the target is reached", control::FinishCause::kTarget);
  course_.finish_if_done();
}

void Attempt::on(const EvaluatorGone& gone) {
  if (processes_.measuring.is(gone.peer)) lose_evaluator();
}

void Attempt::lose_evaluator() {
  processes_.measuring.leave(course_.at());
  if (course_.open() || course_.serves())
    out_.tell("the evaluator is lost; another one will measure what it did not");
  course_.finish_if_done();
}

absl::StatusOr<Version> Attempt::next_to_measure() const {
  if (!options_.job.evaluates)
    return absl::FailedPreconditionError("this job has no evaluator, so nothing can be measured");
  if (!course_.training()) return absl::FailedPreconditionError("the run does not train now");
  return processes_.measuring.next_out_of_turn();
}

void Attempt::on(const EvaluationWanted&) {
  if (next_to_measure().ok()) processes_.measuring.request_out_of_turn();
}

// ---- Waiting

void Attempt::give_up_silent() {
  workers_.give_up_silent();
  servers_.give_up_silent();
  if (course_.disconnecting() || !processes_.measuring.silent(course_.at())) return;
  processes_.measuring.give_up("it was silent for too long");
  lose_evaluator();
}

void Attempt::go_on_starting(Start::Step step) {
  std::visit(Overloaded{
                 [](std::monostate) {},
                 [&](RecoveryVote::Found& newer) { course_.save(std::move(newer)); },
                 [&](const Start::GoBack& back) {
                   lost_hosts_ = back.without;
                   course_.go_back(back.why);
                 },
                 [&](const Start::LeaveLead&) { course_.leave_lead(); },
                 [&](const absl::Status& failure) { course_.fail(failure); },
                 [&](const Start::Absent& absent) { workers_.begin_without(absent); },
             },
             step);
}

// ---- Orders

void Attempt::carry_out(const control::Order& order, const TimedController::ReleasedNext& released) {
  std::visit(Overloaded{
                 [&](const control::CommitRecord& record) { carry_out(record, released); },
                 [&](const auto& one) { carry_out(one); },
             },
             order);
}

void Attempt::carry_out(const control::CommitRecord& record, const TimedController::ReleasedNext& released) {
  Apply apply = apply_order(record);
  if (options_.job.hosts > 1) say_who_waits(apply, released);
  for (Apply::Member& member : apply.members)
    member.early = workers_.early().committed(member.replica, member.clock);
  if (const CommitQuorum::Snapshot* snapshot = course_.ordered(record.version)) {
    apply.state = options_.state_text.write(snapshot->state);
    apply.elapsed = snapshot->elapsed;
  }
  apply.group = options_.job.sums_in_memory && order_reduction(record, processes_.replicas, out_);
  processes_.servers.tell(std::move(apply));
  processes_.measuring.committed(record, course_.now(), course_.controller()->finished());
  if (record.checkpoint) course_.write_checkpoint(*record.checkpoint);
}

void Attempt::carry_out(const control::Release& release) {
  LiveReplica* replica = processes_.replicas.find(release.replica);
  if (replica == nullptr) return;  // the replica left in this very moment, and the fact is on its way
  replica->lease = release.lease;
  replica->steps = release.steps;
  for (const HostPlace host : hosts_of(*replica)) processes_.servers.want(host, release.version);
  for (const Worker* worker : replica->workers)
    out_.send(worker->peer, BeginIteration{release, course_.now()});
}

// ---- What it says of itself

std::vector<std::string> Attempt::missing() const {
  std::vector<std::string> names;
  if (course_.disconnecting()) return names;
  for (const HostRank host : processes_.servers.missing()) names.push_back(fmt::format("server{}", host));
  for (std::string& name : processes_.workers.names(processes_.workers.missing()))
    names.push_back(std::move(name));
  return names;
}

std::string Attempt::waits_for() const {
  if (phase() != Phase::kFinishing) return "";
  if (const std::size_t waiting = processes_.measuring.waiting(); waiting > 0)
    return counted(static_cast<std::int64_t>(waiting), "evaluation");
  return "the last checkpoint";
}

std::string Attempt::phase_in_words() const {
  if (const std::string what = waits_for(); !what.empty()) return "finishing: waiting for " + what;
  if (!course_.open() && !course_.saving_copies()) return "finishing";
  if (started()) return "training";
  const Start* start = course_.start();
  if (start != nullptr && start->awaits_copy() && processes_.servers.all_here())
    return "starting: another host copies the checkpoint";
  std::string words = fmt::format("starting: {} of {} workers are here", processes_.workers.size(),
                                  options_.job.devices.size());
  const std::vector<HostRank> missing = processes_.servers.missing();
  if (options_.job.hosts > 1 && !missing.empty())
    words +=
        fmt::format("; host {} {} not", fmt::join(missing, ", host "), missing.size() == 1 ? "is" : "are");
  return words;
}

}  // namespace paceline::coordinator
