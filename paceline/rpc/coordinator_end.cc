// How a coordinator comes to its end: who is silent for too long, what goes on after a loss, and goodbye.
#include "paceline/rpc/coordinator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/rpc/coordinator_words.h"
#include "paceline/rpc/goodbye.h"

namespace paceline::rpc {

namespace {

constexpr std::chrono::seconds kWorkersGoodbyeLimit{5};
constexpr std::chrono::seconds kEvaluatorLimit{30};
constexpr std::chrono::milliseconds kOwnPause{500};
// Between tries at a checkpoint, each pause twice as long as the one before.
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{300};
constexpr int kTriesAtTheEnd = 4;

}  // namespace

void Coordinator::tick() {
  give_up_silent();
  end_look();
  give_up_hosts();
  give_up_waiting_for_replicas();
  begin_without_missing();
  if (training() && !finishing_ && !rescuing() && checkpoint_again_at_ &&
      std::chrono::steady_clock::now() >= *checkpoint_again_at_)
    write_checkpoint(controller_->save());
  // An evaluator that does not come must not hold the end up for ever.
  if (finishing_ && evaluator_ == nullptr &&
      std::chrono::steady_clock::now() > std::max(finishing_at_, evaluator_gone_at_) + kEvaluatorLimit)
    evaluations_.give_up();
  finish_if_done();
}

void Coordinator::give_up_silent() {
  const SteadyTime now = std::chrono::steady_clock::now();
  // When this process itself stood still, so did its hearing.
  if (now - std::exchange(last_tick_, now) > kOwnPause) listening_since_ = now;
  if (now - listening_since_ < kOwnPause) return;
  for (const auto& [stream, why] : workers_.silent(now)) {
    give_up(*stream, why);
    remove_worker(stream, why);
  }
  if (const auto silent = servers_.silent(now); silent && !goodbye_said_) {
    servers_.give_up(silent->shard);
    lose_server(silent->shard, silent->why);
  }
  // At the lowest priority it has no rhythm.
  if (evaluator_ != nullptr && !goodbye_said_ && now > evaluator_heard_at_ + kEvaluatorLimit) {
    give_up(*evaluator_, "it was silent for too long");
    lose_evaluator();
  }
}

// A job goes back to where it was with all its hosts, as long as they may come. This one is here.
void Coordinator::give_up_hosts() {
  const bool waiting = options_.again && options_.job.hosts > 1 && !finishing_ && !training() && !rescuing();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
  if (!waiting || servers_.all_here() || waited.count() < options_.job.host_patience_s) return;
  for (std::size_t host = 0; host < servers_.size(); ++host) {
    if (!servers_.here(host) && servers_.rank(host) != options_.host)
      lost_hosts_.push_back(servers_.rank(host));
  }
  if (lost_hosts_.empty()) return;
  go_back(fmt::format("host {} did not come back within {} s; going on without it",
                      fmt::join(lost_hosts_, ", host "), options_.job.host_patience_s));
}

// Those that died are started again with the next attempt only.
void Coordinator::give_up_waiting_for_replicas() {
  const auto& all = replicas_.all();
  const bool any = std::any_of(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
  const bool idle = training() && !finishing_ && !rescuing() && !any && !missing().empty();
  if (!waited(idle, idle_since_)) return;
  lose_server(std::nullopt, fmt::format("no replica has been here for {} s", options_.job.host_patience_s));
}

// For as long as a host would be waited for. `since`: the waiting began, if it has.
bool Coordinator::waited(bool waiting, std::optional<SteadyTime>& since) const {
  if (!waiting) since.reset();
  if (!waiting) return false;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (!since) since = now;
  return std::chrono::duration<double>(now - *since).count() >= options_.job.host_patience_s;
}

// Another attempt wants all workers back, as long as they may come: a device may be broken. Whoever comes
// later joins the run.
void Coordinator::begin_without_missing() {
  std::vector<std::size_t> missing = missing_devices();
  std::erase_if(missing, [this](std::size_t device) { return done_without_.contains(device); });
  const bool waiting = options_.again && !options_.only_look_without && controller_ != nullptr &&
                       !training() && !finishing_ && !rescuing() && servers_.all_here() &&
                       workers_.size() > 0 && !missing.empty();
  if (!waited(waiting, missing_since_)) return;
  std::vector<std::string> names;
  for (const std::size_t device : missing) names.push_back(options_.job.replicas[device].name);
  const std::string why =
      fmt::format("{} did not come within {} s", fmt::join(names, ", "), options_.job.host_patience_s);
  if (!servers_.told_to_start()) {
    if (!every_host_has_a_worker()) lose_server(std::nullopt, why + ", and a host has no worker");
    return;
  }
  done_without_.insert(missing.begin(), missing.end());
  if (plans_anew()) {
    for (const std::size_t device : missing) replanner_->left(device);
    follow(replanner_->give_up_batch(now()));
    if (finishing_) return;
  }
  const std::int64_t here = replicas_here();
  if (here == 0) return lose_server(std::nullopt, why + ", and no replica is whole");
  options_.news(why + "; the run begins without");
  const auto& all = replicas_.all();
  const std::int64_t to_come =
      here - std::count_if(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
  const std::int64_t wanted = std::ssize(options_.job.parallel.plan.replicas) - told_of_ - to_come;
  for (std::int64_t i = 0; i < wanted; ++i)
    tell_of_nobody(names[std::min(static_cast<std::size_t>(i), names.size() - 1)], why);
}

bool Coordinator::every_host_has_a_worker() const {
  std::set<int> hosts;
  for (std::size_t device = 0; device < options_.job.replicas.size(); ++device) {
    if (workers_.here(device)) hosts.insert(options_.job.replicas[device].host.value_or(0));
  }
  return std::ssize(hosts) == options_.job.hosts;
}

// Of the plan's, those whose workers are all here; all, where they join together.
std::int64_t Coordinator::replicas_here() const {
  const auto& planned = replicas_.plan().replicas;
  if (plans_anew()) return std::ssize(planned);
  const auto here = [this](std::int32_t device) { return workers_.here(static_cast<std::size_t>(device)); };
  return std::count_if(planned.begin(), planned.end(), [&](const auto& replica) {
    return std::all_of(replica.devices.begin(), replica.devices.end(), here);
  });
}

// The Controller, which waits for as many as were planned: one more has come and gone.
void Coordinator::tell_of_nobody(const std::string& name, const std::string& why) {
  ++told_of_;
  const ReplicaId nobody = replicas_.of_nobody();
  absl::Status told = controller_->take(control::ReplicaJoined{nobody, name, 1});
  told.Update(controller_->take(control::ReplicaLeft{nobody, why}));
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
}

void Coordinator::end_look() {
  if (!options_.only_look_without || rescuing() || finishing_) return;
  const std::vector<int>& without = *options_.only_look_without;
  for (std::size_t host = 0; held_ && host < servers_.size(); ++host) {
    const bool awaited = std::find(without.begin(), without.end(), servers_.rank(host)) == without.end();
    if (awaited && !servers_.here(host)) return;
  }
  go_back(held_ ? kNotAllHeld : "the servers have nothing newer");
}

void Coordinator::ask_stop(const std::string& why) {
  if (finishing_) return;
  if (!training() && !rescuing()) return finish();
  if (std::exchange(stop_asked_, true) || !training()) return;
  const absl::Status status = controller_->take(control::StopAsked{why});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

void Coordinator::fail(absl::Status status) {
  if (goodbye_said_) return;
  result_.Update(status);
  evaluations_.forget();
  checkpoints_.forget();
  finish();
}

// What came after the last checkpoint is lost. The streams just end, and who hears no goodbye comes again.
void Coordinator::go_back(const std::string& why) {
  if (can_go_on_) return;
  // What could not even start is not tried again and again, but what has trained before is. What is over is
  // so once its last checkpoint is there, and who asks for a stop gets one.
  const bool worth_it = training() || options_.again || options_.restart.has_value();
  if (!worth_it || stop_asked_ || !result().ok()) return fail(absl::UnavailableError(why));
  can_go_on_ = true;
  result_.Update(absl::UnavailableError(why));
  finishing_ = true;
  if (controller_ != nullptr) controller_->end();
  loop_.stop();
}

// `shard`: of the server; nothing where two cannot reach each other. What the others have is written first,
// where it is kept twice.
void Coordinator::lose_server(std::optional<std::size_t> shard, const std::string& why) {
  const bool copied = replication_ && (training() || rescuing());
  if (!copied || !result_.ok() || goodbye_said_ || can_go_on_) return go_back(why);
  if (lost_why_.empty()) {
    lost_why_ = why;
    finishing_ = false;  // it is not over yet
    controller_->end();
    evaluations_.forget();
    checkpoints_.forget();
  }
  go_on_from_rescue(replication_->lose(shard, checkpoints_.newest()));
}

void Coordinator::go_on_from_rescue(const absl::Status& step) {
  if (goodbye_said_) return;
  if (step.ok() && !replication_->rescued()) return;
  if (step.ok() && !training()) options_.nothing_lost();
  if (!step.ok()) lost_why_ += fmt::format(", and its copies were not to be had: {}", message_of(step));
  finishing_ = stop_asked_;
  if (!stop_asked_ || !step.ok()) return go_back(lost_why_);
  say_goodbye();
}

Version Coordinator::seen() const {
  if (controller_ == nullptr) return Version(0);
  return replication_ ? replication_->certain() : controller_->version();
}

void Coordinator::finish() {
  finishing_ = true;
  finishing_at_ = std::chrono::steady_clock::now();
  checkpoints_failed_ = std::min(checkpoints_failed_, 1);
  checkpoint_again_at_.reset();
  if (controller_ != nullptr) controller_->end();
  finish_if_done();
}

void Coordinator::finish_if_done() {
  if (!finishing_ || can_go_on_) return;
  if (goodbye_said_) {
    const bool all_gone = workers_.size() == 0 && servers_.none_here() && evaluator_ == nullptr;
    if (all_gone || std::chrono::steady_clock::now() > goodbye_at_ + kWorkersGoodbyeLimit) loop_.stop();
    return;
  }
  if (!evaluations_.empty() || checkpoints_.writing()) return;
  if (result_.ok() && training() && controller_->version() != checkpoints_.newest()) {
    if (checkpoint_again_at_ && std::chrono::steady_clock::now() < *checkpoint_again_at_) return;
    write_checkpoint(controller_->save());
    if (result_.ok()) return;
  }
  say_goodbye();
}

// ---- Checkpoints ----

void Coordinator::write_checkpoint(control::ControllerState state) {
  const Version version = state.version;
  checkpoint_again_at_.reset();
  const absl::Status status = checkpoints_.request(std::move(state), now().time_since_epoch());
  if (!status.ok()) checkpoint_failed(version, status);
}

void Coordinator::on_written(std::size_t shard, const wire::ServerWritten& written) {
  const auto before = checkpoints_.newest();
  const absl::Status status = checkpoints_.written(shard, written);
  if (!status.ok()) checkpoint_failed(Version(written.version()), status);
  if (checkpoints_.newest() != before) {
    if (std::exchange(checkpoints_failed_, 0) > 0)
      options_.news(fmt::format("the checkpoint of version {} is written", *checkpoints_.newest()));
    checkpoint_again_at_.reset();
  }
  finish_if_done();
}

// A disk that is full, or a folder that is away, may be as before in a while. What the run has learnt is in its
// memory until then; at the end there is not that much time.
void Coordinator::checkpoint_failed(Version version, const absl::Status& why) {
  ++checkpoints_failed_;
  const auto pause = std::min(kLongestPause, kFirstPause * (1 << std::min(checkpoints_failed_ - 1, 20)));
  const std::string line = fmt::format("the checkpoint of version {} could not be written: {}", version, message_of(why));
  if (finishing_ && checkpoints_failed_ >= kTriesAtTheEnd) {
    result_.Update(absl::Status(why.code(), line));
    return;
  }
  options_.news(fmt::format("{}; it is tried again in {} s", line, pause.count()));
  checkpoint_again_at_ = std::chrono::steady_clock::now() + pause;
}

wire::Goodbye Coordinator::last_word() const {
  wire::Goodbye goodbye;
  goodbye.set_failed(!result().ok());
  goodbye.set_why(message_of(result()));
  return goodbye;
}

void Coordinator::say_goodbye() {
  if (std::exchange(goodbye_said_, true)) return;
  goodbye_at_ = std::chrono::steady_clock::now();
  const wire::Goodbye goodbye = last_word();
  for (const auto& [stream, worker] : workers_.all()) rpc::say_goodbye(*worker.stream, goodbye);
  servers_.say_goodbye(goodbye);
  if (evaluator_ != nullptr) rpc::say_goodbye(*evaluator_, goodbye);
}

}  // namespace paceline::rpc
