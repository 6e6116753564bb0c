#include "paceline/decisions/control/controller.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/most_replicas.h"

namespace paceline::control {

namespace {

template <class... Args>
absl::Status refuse(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Args>(args)...));
}

// Whether the commit is the first to reach another multiple of `every` samples.
bool crosses(std::int64_t every, const CommitRecord& record) {
  return every > 0 && record.committed_after() / every > record.committed_before / every;
}

// Every commit took at least one sample, and so did every iteration of a replica, or else a commit came first
// and its gradient was discarded.
bool plausible(const ControllerState& state, std::int64_t committed) {
  const auto counted = [&](std::int64_t count) { return count >= 0 && count <= committed; };
  return counted(state.version.value()) &&
         std::all_of(state.clocks.begin(), state.clocks.end(),
                     [&](const auto& one) { return counted(one.second.value()); });
}

}  // namespace

Controller::Controller(ControllerConfig config, std::unique_ptr<policy::SyncPolicy> policy,
                       std::unique_ptr<Replanner> replanner)
    : config_(std::move(config)),
      policy_(std::move(policy)),
      local_steps_(policy_->local_steps()),
      policy_orders_(Version(0)),
      ledger_(config_.dataset_size, config_.total_samples, config_.least_batch),
      shares_(config_.least_batch),
      replanner_(std::move(replanner)) {}

absl::Status Controller::restore(const ControllerState& state) {
  PACELINE_CHECK(here_ == 0 && !started_, "restore after the first fact");
  SampleLedger ledger(config_.dataset_size, config_.total_samples);
  if (!ledger.restore(state.ledger) || !plausible(state, ledger.committed())) {
    return absl::InvalidArgumentError(
        "the saved state does not fit this job: its samples or epochs were changed");
  }
  PACELINE_CHECK(ledger_.restore(state.ledger), "a state fits and does not");
  policy_orders_ = policy::Orders(state.version);
  completed_ = state.version;
  shares_.raise_least(ledger_.least());
  rounds_ = CommittedRounds(state.version);
  restored_clocks_ = state.clocks;
  return absl::OkStatus();
}

ControllerState Controller::save() const {
  if (!started_) return {version(), ledger_.save(), restored_clocks_};
  ControllerState state{version(), ledger_.save(), {}};
  for (const Member& member : members_) {
    // A gradient that is finished and not committed is lost with the process: its iteration does not count.
    if (member.here()) state.clocks[member.name] = Clock(member.clock.value() - (member.finished ? 1 : 0));
  }
  return state;
}

absl::Status Controller::handle(const Fact& fact, std::vector<Order>& orders) {
  if (finished_) return absl::OkStatus();
  if (replanner_ == nullptr || plan_told_) return take(fact, orders);
  orders.emplace_back(replanner_->first(fact.at));
  const absl::Status taken = take(fact, orders);
  if (!taken.ok()) orders.pop_back();
  plan_told_ = taken.ok();
  return taken;
}

absl::Status Controller::take(const Fact& fact, std::vector<Order>& orders) {
  return std::visit([&](const auto& what) { return on(fact.at, what, orders); }, fact.what);
}

absl::Status Controller::on(Time at, const ReplicaJoined& fact, std::vector<Order>& orders) {
  if (here(fact.replica)) return refuse("replica {} joined before", fact.replica);
  if (fact.replica < ReplicaId(0) || fact.replica >= ReplicaId(kMostReplicas)) {
    return refuse("replica {} joined: numbers start at 0 and end below {}", fact.replica, kMostReplicas);
  }
  if (fact.batch <= 0)
    return refuse("replica {} joined with a batch of {} samples", fact.replica, fact.batch);
  if (replanner_ != nullptr) PACELINE_RETURN_IF_ERROR(replanner_->joined(fact));
  const auto index = static_cast<std::size_t>(fact.replica.value());
  if (index >= members_.size()) members_.resize(index + 1);
  // A batch of more samples than the data has takes all of them, and the bulk is what a round can take.
  const std::int64_t batch = std::min(fact.batch, config_.dataset_size);
  members_[index] = {.name = fact.name, .batch = batch, .clock = Clock(0), .base = version()};
  if (config_.look_ahead) {
    lateness_of_.resize(members_.size());
    lateness_of_[index] = {};
  }
  ++here_;
  nominal_batch_ += batch;
  if (started_) {
    activate(at, fact.replica, entry_clock());
  } else {
    start_if_all_here(at);
  }
  share_as_planned();
  settle(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const ReplicaLeft& fact, std::vector<Order>& orders) {
  if (!here(fact.replica)) return refuse("replica {} left and was not here", fact.replica);
  ledger_.withdraw(fact.replica);
  ledger_.give_back(fact.replica);
  if (fact.least_batch) {
    ledger_.raise_least(*fact.least_batch);
    shares_.raise_least(*fact.least_batch);
  }
  if (active(fact.replica)) deactivate(at, fact.replica);
  parked_.erase(fact.replica);
  nominal_batch_ -= member(fact.replica).batch;
  member(fact.replica) = {};
  if (config_.uneven_data) shares_.forget(fact.replica);
  const bool gives_up_batch = replanner_ != nullptr && replanner_->left(fact.replica);
  --here_;
  if (!started_) {
    ++lost_before_start_;
    start_if_all_here(at);
  }
  settle(at, orders);
  if (gives_up_batch && !finished_) replanner_->give_up_batch(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const ReplicaReady& fact, std::vector<Order>& orders) {
  if (!here(fact.replica)) return refuse("replica {} is not in this run", fact.replica);
  Member& mine = member(fact.replica);
  if (!mine.computing || fact.clock != mine.clock.next()) {
    return refuse("replica {} reports iteration {} but was not asked for it", fact.replica, fact.clock);
  }
  if (fact.base < mine.base || fact.base > version() || fact.compute < Duration::zero()) {
    return refuse("replica {} reports base version {} and was released on {}", fact.replica, fact.base,
                  mine.base);
  }
  if (fact.weight && !is_weight(*fact.weight))
    return refuse("replica {} gives its gradient the weight {}", fact.replica, *fact.weight);
  if (replanner_ != nullptr) PACELINE_RETURN_IF_ERROR(replanner_->check(fact));
  if (fact.data_end) PACELINE_RETURN_IF_ERROR(end_data(fact));
  mine.computing = false;
  if (!ledger_.holds(fact.replica)) {
    // Its samples lie behind the end, so it has computed nothing.
    park(at, fact.replica, orders);
    settle(at, orders);
    return absl::OkStatus();
  }
  mine.weight = fact.weight;
  mine.finished = true;
  mine.clock = fact.clock;
  mine.base = fact.base;
  active_.finish(fact.replica, fact.clock);
  const std::int64_t samples = ledger_.held_by(fact.replica).size();
  if (config_.uneven_data) shares_.finished(fact.replica, samples, fact.compute, fact.weight);
  // The data of those who are released by this fact are decided before, and the rest comes after.
  std::vector<Order> planned;
  if (replanner_ != nullptr) count_in_batch(at, fact, samples, planned);
  const Duration pulled = fact.pulling > Duration::zero() ? fact.loading + fact.pulling : Duration::zero();
  policy_->ready(at, {fact.replica, fact.clock, fact.base, samples, fact.compute, pulled}, policy_orders_);
  settle(at, orders);
  if (!planned.empty() && !finished_) std::move(planned.begin(), planned.end(), std::back_inserter(orders));
  return absl::OkStatus();
}

absl::Status Controller::end_data(const ReplicaReady& fact) {
  const std::int64_t end = *fact.data_end;
  bool trained_on_more = false;
  for (std::size_t i = 0; i < members_.size(); ++i)
    trained_on_more |=
        members_[i].finished && ledger_.holds_from(end, ReplicaId(static_cast<std::int32_t>(i)));
  if (trained_on_more || !ledger_.end_at(end)) {
    return refuse("replica {} says that the data end at sample {}, and others found more or fewer samples",
                  fact.replica, end);
  }
  return absl::OkStatus();
}

void Controller::count_in_batch(Time at, const ReplicaReady& fact, std::int64_t samples,
                                std::vector<Order>& orders) {
  replanner_->finished(fact, samples);
  if (!replanner_->batch_is_over()) return;
  replanner_->end_batch(at, orders);
  share_as_planned();
}

void Controller::share_as_planned() {
  if (replanner_ == nullptr || !config_.uneven_data) return;
  for (const auto& [replica, samples] : replanner_->data()) shares_.decided(replica, samples);
}

absl::Status Controller::on(Time at, const TimerRang&, std::vector<Order>& orders) {
  policy_->timer(at, policy_orders_);
  settle(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time, const StopAsked& fact, std::vector<Order>& orders) {
  finished_ = true;
  orders.emplace_back(Finish{fact.why, fact.cause});
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const CommitComplete& fact, std::vector<Order>& orders) {
  if (fact.version <= completed_ || fact.version > version()) {
    return refuse("version {} is said to be complete after version {}, and {} is the newest ordered",
                  fact.version, completed_, version());
  }
  completed_ = fact.version;
  policy_->completed(at, {fact.version}, policy_orders_);
  settle(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const DeviceJoined& fact, std::vector<Order>& orders) {
  if (replanner_ == nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(replanner_->joined(fact));
  // The run need not begin with a plan that has no room.
  if (fact.memory_bytes > 0 && replanner_->nobody_is_here() && replanner_->lacks_memory())
    replanner_->give_up_batch(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const DeviceLeft& fact, std::vector<Order>& orders) {
  if (replanner_ == nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(replanner_->left(fact));
  end_batch_without_it(at, orders);
  return absl::OkStatus();
}

absl::Status Controller::on(Time at, const DeviceOutOfMemory& fact, std::vector<Order>& orders) {
  if (replanner_ == nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(replanner_->out_of_memory(fact));
  end_batch_without_it(at, orders);
  return absl::OkStatus();
}

// The others finish the batch, if there are any.
void Controller::end_batch_without_it(Time at, std::vector<Order>& orders) {
  if (replanner_->nobody_is_here()) {
    replanner_->give_up_batch(at, orders);
  } else if (replanner_->batch_is_over()) {
    replanner_->end_batch(at, orders);
    share_as_planned();
  }
}

absl::Status Controller::on(Time, const LinkMeasured& fact, std::vector<Order>&) {
  return replanner_ == nullptr ? absl::OkStatus() : replanner_->measured(fact);
}

absl::Status Controller::on(Time at, const PlanSearched& fact, std::vector<Order>& orders) {
  if (replanner_ == nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(replanner_->searched(at, fact, orders));
  share_as_planned();
  return absl::OkStatus();
}

bool Controller::could_be_larger(ReplicaId replica, std::int64_t least) const {
  if (least <= ledger_.least() || least > nominal_batch_ || !here(replica) || !ledger_.holds(replica))
    return false;
  const std::int64_t smallest = ledger_.held_by(replica).size() / member(replica).steps;
  return least > smallest && ledger_.could_be_larger(replica, least);
}

std::optional<planner::Plan> Controller::plan() const {
  if (replanner_ == nullptr) return std::nullopt;
  return replanner_->plan();
}

bool Controller::here(ReplicaId replica) const {
  const auto index = static_cast<std::size_t>(replica.value());
  return index < members_.size() && members_[index].here();
}

void Controller::start_if_all_here(Time at) {
  if (here_ == 0 || here_ + lost_before_start_ < config_.start_replicas) return;
  started_ = true;
  const Clock lowest = lowest_restored();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].here()) continue;
    const auto restored = restored_clocks_.find(members_[i].name);
    activate(at, ReplicaId(static_cast<std::int32_t>(i)),
             restored == restored_clocks_.end() ? lowest : std::max(lowest, restored->second));
  }
}

Clock Controller::lowest_restored() const {
  if (restored_clocks_.empty()) return Clock(0);
  const auto [slowest, fastest] =
      std::minmax_element(restored_clocks_.begin(), restored_clocks_.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::optional<std::int64_t> gap = bounds().gap;
  if (!gap) return slowest->second;
  return std::max(slowest->second, Clock(fastest->second.value() - (*gap - 1)));
}

void Controller::activate(Time at, ReplicaId replica, Clock clock) {
  Member& mine = member(replica);
  mine.clock = std::max(mine.clock, clock);
  active_.join(replica, mine.clock);
  if (config_.uneven_data) shares_.joined(replica, mine.batch);
  policy_->joined(at, {replica, mine.clock}, policy_orders_);
}

void Controller::deactivate(Time at, ReplicaId replica) {
  active_.leave(replica);
  if (config_.uneven_data) shares_.paused(replica);
  policy_->left(at, {replica}, policy_orders_);
}

bool Controller::unpark_one(Time at) {
  if (parked_.empty() || !ledger_.any_to_lease()) return false;
  const ReplicaId replica = *parked_.begin();
  parked_.erase(parked_.begin());
  activate(at, replica, entry_clock());
  return true;
}

Clock Controller::entry_clock() const {
  if (!active_.empty()) return active_.slowest();
  Clock fastest{0};
  for (const Member& member : members_) fastest = std::max(fastest, member.clock);
  return fastest;
}

void Controller::settle(Time at, std::vector<Order>& orders) {
  do {
    // Carrying out one order can bring more: a replica without samples is parked, which the policy hears as
    // Left.
    while (!policy_orders_.list().empty()) {
      policy_orders_.move_to(carried_out_);
      for (const policy::Order& order : carried_out_) carry_out(at, order, orders);
    }
  } while (unpark_one(at));
  if (!released_.empty()) reserve(orders);
  if (ledger_.all_committed()) {
    finished_ = true;
    orders.emplace_back(Finish{"every sample is committed", FinishCause::kEverySample});
  }
}

void Controller::carry_out(Time at, const policy::Order& order, std::vector<Order>& orders) {
  std::visit(Overloaded{
                 [&](const policy::Commit& one) { commit(one, orders); },
                 [&](const policy::Release& one) { release(at, one, orders); },
                 [&](const policy::Discard& one) { discard(one, orders); },
                 [&](const policy::WakeAt& one) { orders.emplace_back(WakeAt{one.at}); },
             },
             order);
}

std::optional<CommitRecord> Controller::next_commit() const {
  if (!started_ || finished_ || replanner_ != nullptr || active_.empty() ||
      !policy_->commits_all(active_.size()))
    return std::nullopt;
  policy::Commit commit{.version = version().next(), .members = {}, .why = {}};
  bool awaits = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const ReplicaId replica(static_cast<std::int32_t>(i));
    const Member& one = members_[i];
    if (!active(replica)) continue;
    // Its samples may lie behind the end of the data, so it will have no gradient.
    if ((!one.computing && !one.finished) || !ledger_.holds(replica)) return std::nullopt;
    awaits = awaits || one.computing;
    commit.members.push_back({replica, one.computing ? one.clock.next() : one.clock});
  }
  if (!awaits) return std::nullopt;
  CommitRecord record;
  describe(commit, record);
  return record;
}

// In place, because a simulation has millions of commits.
void Controller::describe(const policy::Commit& commit, CommitRecord& record) const {
  record.version = commit.version;
  record.committed_before = ledger_.committed();
  record.why = commit.why;
  if (commit.members.size() > 1) record.members.reserve(commit.members.size());
  for (const policy::Contribution& contribution : commit.members) {
    record.members.push_back(describe(contribution));
    record.samples += record.members.back().lease.size();
  }
  record.nominal = nominal_batch_ * std::max<std::int64_t>(1, local_steps_);
  record.of_differences = local_steps_ > 0;
  record.learning_rate = learning_rate(config_.schedule, record.committed_before);
  weigh(record);
}

CommitMember Controller::describe(const policy::Contribution& contribution) const {
  PACELINE_CHECK(here(contribution.replica), "replica {} is not here to commit", contribution.replica);
  return {.replica = contribution.replica,
          .clock = contribution.clock,
          .base = member(contribution.replica).base,
          .lease = ledger_.held_by(contribution.replica)};
}

void Controller::commit(const policy::Commit& commit, std::vector<Order>& orders) {
  auto& record = std::get<CommitRecord>(orders.emplace_back(std::in_place_type<CommitRecord>));
  describe(commit, record);
  for (const policy::Contribution& contribution : commit.members) take_contribution(contribution);
  if (config_.look_ahead) learn(record);
  const bool last = ledger_.all_committed();
  record.keep_for_evaluation = config_.evaluate && (last || crosses(config_.evaluate_every, record));
  const bool checkpoint = last || crosses(config_.checkpoint_every, record);
  if (!checkpoint && !config_.keep_states) return;
  ControllerState state = save();
  state.version = commit.version;
  if (config_.keep_states) states_.push_back(state);
  if (checkpoint) record.checkpoint = std::move(state);
}

void Controller::take_contribution(const policy::Contribution& contribution) {
  Member& mine = member(contribution.replica);
  PACELINE_CHECK(mine.finished && mine.clock == contribution.clock, "replica {} has no gradient {} to commit",
                 contribution.replica, contribution.clock);
  mine.finished = false;
  ledger_.commit(contribution.replica);
}

// A member without a weight (a skipped batch) counts as much as the others do for its samples. Weights that are all
// 0 say nothing.
void Controller::share_out(CommitRecord& record) const {
  const auto total = static_cast<double>(record.samples);
  double weights = 0, samples = 0;
  for (CommitMember& one : record.members) {
    const auto size = static_cast<double>(one.lease.size());
    one.share = size / total;
    if (const auto weight = member(one.replica).weight) {
      weights += *weight;
      samples += size;
    }
  }
  if (!(weights > 0)) return;
  const double all = weights * (total / samples);
  for (CommitMember& one : record.members) {
    const auto weight = member(one.replica).weight;
    one.share = weight ? *weight / all : one.share;
  }
}

void Controller::weigh(CommitRecord& record) const {
  const auto total = static_cast<double>(record.samples);
  share_out(record);
  for (CommitMember& member : record.members) {
    const auto staleness = static_cast<double>(record.version - member.base - 1);
    member.weight = member.share / (1.0 + config_.staleness_damping * staleness);
  }
  const bool whole = here_ == 1 || policy_->commits_whole_rounds();
  if (config_.scale == CommitScale::kSamples && !record.of_differences && !whole)
    record.fraction = total / static_cast<double>(record.nominal);
}

void Controller::discard(const policy::Discard& discard, std::vector<Order>& orders) {
  const auto [replica, clock] = discard.contribution;
  // A replica that has left gave its samples back when it did.
  if (here(replica)) {
    Member& mine = member(replica);
    PACELINE_CHECK(mine.finished && mine.clock == clock, "replica {} has no gradient {} to discard", replica,
                   clock);
    mine.finished = false;
    ledger_.give_back(replica);
  }
  orders.emplace_back(Discard{replica, clock, discard.why});
}

void Controller::learn(const CommitRecord& record) {
  for (const CommitMember& one : record.members) {
    const auto staleness = static_cast<double>(record.version - one.base - 1);
    const double delay = rounds_.since(one.base);
    if (lateness(one.replica).add(staleness, delay)) lateness_.count(staleness, delay);
  }
  rounds_.commit(record.fraction);
  if (rounds_.too_many(static_cast<std::size_t>(here_))) rounds_.forget_before(oldest_base());
}

Version Controller::oldest_base() const {
  Version oldest = version();
  for (const Member& member : members_) {
    if (member.computing || member.finished) oldest = std::min(oldest, member.base);
  }
  return oldest;
}

// Predicts how far the weights will have moved by then, τ̂·f̂ bulk rounds: the product is this replica's own
// delay. A replica that has not committed yet is taken to be as late as the others have been.
void Controller::look_ahead(Release& release) {
  release.learning_rate = learning_rate(config_.schedule, ledger_.committed());
  const auto& own = lateness(release.replica).mean();
  const Lateness::Mean expected = own ? *own : lateness_.mean().value_or(Lateness::Mean{});
  release.staleness = expected.staleness;
  release.fraction = release.staleness > 0 ? expected.delay / release.staleness : 1;
}

void Controller::release(Time at, const policy::Release& release, std::vector<Order>& orders) {
  PACELINE_CHECK(active(release.replica), "replica {} is released and the policy has not heard of it",
                 release.replica);
  Member& mine = member(release.replica);
  PACELINE_CHECK(!mine.computing && !mine.finished, "replica {} is released twice", release.replica);
  const std::int64_t batch = config_.uneven_data ? shares_.next(release.replica) : mine.batch;
  const std::int64_t samples = batch * std::max<std::int64_t>(1, local_steps_);
  const auto lease = ledger_.lease(release.replica, samples);
  if (!lease) return park(at, release.replica, orders);
  mine.computing = true;
  mine.base = release.version;
  mine.weight.reset();
  auto& order = std::get<Release>(
      orders.emplace_back(Release{release.replica, mine.clock.next(), release.version, *lease, release.why}));
  if (config_.ahead > 0) released_.push_back({orders.size() - 1, samples});
  if (config_.look_ahead) look_ahead(order);
  if (local_steps_ == 0) return;
  order.learning_rate = learning_rate(config_.schedule, ledger_.committed());
  // Samples that were reserved when its share was larger are cut into larger pieces, not more. Nor into pieces that the
  // model cannot compute on.
  const std::int64_t wanted = std::min(local_steps_, (lease->size() + batch - 1) / batch);
  mine.steps = std::max<std::int64_t>(1, std::min(wanted, lease->size() / ledger_.least()));
  order.steps = mine.steps;
}

void Controller::park(Time at, ReplicaId replica, std::vector<Order>& orders) {
  parked_.insert(replica);
  orders.emplace_back(Park{replica});
  deactivate(at, replica);
}

// In turns, each one iteration further: so one that is always released together with the same others leases
// what it would if nothing was reserved, and under BSP a run takes the same course with any number ahead, and
// when it is resumed. Near the end fewer are reserved, as others are likely to need them: at most half of
// what is left.
void Controller::reserve(std::vector<Order>& orders) {
  const std::int64_t round = nominal_batch_ * std::max<std::int64_t>(1, local_steps_);
  const std::int64_t most = std::min(config_.ahead, ledger_.left_to_lease() / (2 * round));
  const auto replica = [&](const Released& one) { return std::get<Release>(orders[one.order]).replica; };
  for (std::int64_t count = 1; count <= most; ++count) {
    for (const Released& one : released_) {
      if (ledger_.reservations(replica(one)) < count) ledger_.reserve(replica(one), one.samples);
    }
  }
  for (const Released& one : released_)
    std::get<Release>(orders[one.order]).ahead = ledger_.reserved_for(replica(one));
  released_.clear();
}

}  // namespace paceline::control
