#include "paceline/records/stats/time_spans.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <absl/strings/str_split.h>

#include "paceline/base/check.h"
#include "paceline/records/stats/group_histogram.h"

namespace paceline::report {

namespace {

// The beginning of CGP's reason when it waited for the servers.
constexpr std::string_view kPathFree = "path free";
constexpr std::int32_t kRunEnded = 0, kLeftFirst = 1;  // rules

}  // namespace

TimeSpans::TimeSpans(std::vector<std::string> devices, See see)
    : names_of_devices_(std::move(devices)),
      see_(std::move(see)),
      rules_{"the run ended first", "it left first"},
      rule_is_servers_{false, false} {}

void TimeSpans::begin(Time at) {
  if (from_) return;
  from_ = at;
  for (const std::string& name : names_of_devices_) device(name, at);
}

void TimeSpans::on_fact(const control::Fact& fact) {
  begin(fact.at);
  latest_ = std::max(latest_, fact.at);
  finished_at_.reset();  // a run that was stopped, and goes on
  ++facts_;
  std::visit([&](const auto& what) { on(fact.at, what); }, fact.what);
}

void TimeSpans::on_order(Time at, const control::Order& order) {
  std::visit([&](const auto& what) { on(at, what); }, order);
}

// The replicas of the plan before have left.
void TimeSpans::on(Time, const control::PlanAdopted& adopted) {
  begin(adopted.at);
  std::vector<bool> used(names_of_devices_.size(), false);
  for (const planner::PlannedReplica& planned : adopted.plan.replicas) {
    for (const std::int32_t device : planned.devices) {
      if (static_cast<std::size_t>(device) < used.size()) used[static_cast<std::size_t>(device)] = true;
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    const std::size_t number = device(names_of_devices_[i], adopted.at);
    const State now = states_[number].state;
    if (!used[i] && (now == State::kStarting || now == State::kAway))
      end(number, adopted.at, State::kParked, {});
  }
}

void TimeSpans::on(Time at, const control::ReplicaJoined& fact) {
  const auto index = static_cast<std::size_t>(fact.replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  const auto [entry, fresh] =
      name_numbers_.try_emplace(fact.name, static_cast<std::int32_t>(iterations_.size()));
  if (fresh) {
    iterations_.push_back({.replica = fact.name});
    devices_by_replica_.push_back(make_devices(fact.name, at));
  }
  const std::vector<std::size_t>& mine = devices_by_replica_[static_cast<std::size_t>(entry->second)];
  replicas_[index] = Replica{.name = entry->second, .devices = mine};
  for (const std::size_t number : mine) {
    // A device that crashed may be back before its end was noticed.
    if (states_[number].state != State::kStarting) end(number, at, State::kAway, {kNobody, kLeftFirst});
    states_[number].replica = fact.replica;
    states_[number].in_pipeline = mine.size() > 1;
  }
  cause_ = {.on = entry->second};
}

void TimeSpans::on(Time at, const control::ReplicaLeft& fact) {
  end(fact.replica, at, State::kAway, {kNobody, kLeftFirst});
  cause_ = {.on = replica(fact.replica).name};
}

void TimeSpans::on(Time at, const control::ReplicaReady& fact) {
  const Replica& mine = replica(fact.replica);
  MeanIteration& all = iterations_[static_cast<std::size_t>(mine.name)];
  ++all.iterations;
  all.computed += fact.compute - fact.pulling;
  for (const std::size_t number : mine.devices) {
    if (states_[number].replica != fact.replica) continue;
    const TimeSpan whole = span(number, at, false, {});
    const Duration reported = std::clamp(fact.compute, Duration::zero(), whole.end - whole.start);
    // How the rest divides is not known: half of it counts as before, and half as after.
    const Duration rest = whole.end - whole.start - reported;
    const Duration loading = std::clamp(fact.loading, Duration::zero(), reported);
    const Duration pulling = std::clamp(fact.pulling, Duration::zero(), reported - loading);
    TimeSpan part = whole;
    part.end = part.start;
    const auto then = [&](TimeCause cause, Time until) {
      part.cause = cause;
      part.start = std::exchange(part.end, until);
      tell(part);
    };
    then(TimeCause::kOnTheWay, whole.start + rest / 2);
    then(TimeCause::kLoading, part.end + loading);
    then(TimeCause::kWeights, part.end + pulling);
    then(TimeCause::kComputing, whole.end - (rest - rest / 2));
    then(TimeCause::kOnTheWay, whole.end);
    states_[number].state = State::kWaiting;
    states_[number].since = whole.end;
  }
  cause_ = {.on = mine.name};
}

void TimeSpans::on(Time, const control::CommitRecord& order) {
  const std::int32_t number = rule_of(order.why);
  for (const control::CommitMember& member : order.members) {
    Replica& mine = replica(member.replica);
    mine.committed_by = facts_;
    mine.commit_rule = number;
  }
}

void TimeSpans::on(Time at, const control::Release& order) {
  Replica& mine = replica(order.replica);
  end(order.replica, at, State::kComputing, blame(mine, order.why));
  for (const std::size_t number : mine.devices) {
    if (states_[number].replica == order.replica) states_[number].iteration = order.clock;
  }
}

void TimeSpans::on(Time at, const control::Park& order) {
  end(order.replica, at, State::kParked, blame(replica(order.replica), {"no samples are left for it"}));
}

TimeSpans::Replica& TimeSpans::replica(ReplicaId id) {
  const auto index = static_cast<std::size_t>(id.value());
  PACELINE_CHECK(index < replicas_.size() && replicas_[index], "replica {} never joined", id);
  return *replicas_[index];
}

std::size_t TimeSpans::device(const std::string& name, Time at) {
  const auto [entry, fresh] = device_by_name_.try_emplace(name, devices_.size());
  if (fresh) {
    devices_.push_back(name);
    states_.push_back({.since = from_.value_or(at)});  // before it came the others may have been at work
  }
  return entry->second;
}

std::vector<std::size_t> TimeSpans::make_devices(const std::string& replica, Time at) {
  const std::vector<std::string> parts = absl::StrSplit(replica, '+');
  const bool known = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return std::find(names_of_devices_.begin(), names_of_devices_.end(), part) != names_of_devices_.end();
  });
  if (!known) return {device(replica, at)};
  std::vector<std::size_t> found;
  for (const std::string& part : parts) found.push_back(device(part, at));
  return found;
}

std::optional<std::size_t> TimeSpans::device_of(const std::string& name) const {
  const auto found = device_by_name_.find(name);
  return found == device_by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::string TimeSpans::name(std::int32_t on) const {
  if (on == kTheServers) return "the servers";
  return on < 0 ? "" : iterations_[static_cast<std::size_t>(on)].replica;
}

std::int32_t TimeSpans::rule_of(const policy::Reason& why) {
  if (const auto found = rule_numbers_.find(why.text); found != rule_numbers_.end()) return found->second;
  const std::string rule = cause_of(why);
  const auto known = std::find(rules_.begin(), rules_.end(), rule);  // two texts may be the same rule
  const auto number = static_cast<std::int32_t>(known - rules_.begin());
  if (known == rules_.end()) {
    rule_is_servers_.push_back(rule == kPathFree);
    rules_.push_back(rule);
  }
  rule_numbers_.emplace(why.text, number);
  return number;
}

// If a replica's own gradient was committed just now, the commit's reason is more exact than the release's.
TimeSpans::Blame TimeSpans::blame(const Replica& waiting, const policy::Reason& why) {
  const std::int32_t by = waiting.committed_by == facts_ ? waiting.commit_rule : rule_of(why);
  const bool servers = cause_.on == kNobody && rule_is_servers_[static_cast<std::size_t>(by)];
  return {servers ? kTheServers : cause_.on, by};
}

void TimeSpans::end(ReplicaId id, Time at, State next, Blame blame) {
  for (const std::size_t number : replica(id).devices) {
    if (states_[number].replica == id) end(number, at, next, blame);
  }
}

void TimeSpans::end(std::size_t number, Time at, State next, Blame blame) {
  const TimeSpan done = span(number, at, next == State::kAway, blame);
  tell(done);
  states_[number].state = next;
  states_[number].since = done.end;
}

TimeSpan TimeSpans::span(std::size_t number, Time at, bool leaves, Blame blame) const {
  const Device& device = states_[number];
  TimeSpan span{.device = number,
                .start = device.since,
                .end = std::max(device.since, at),
                .iteration = device.iteration,
                .in_pipeline = device.in_pipeline};
  switch (device.state) {
    case State::kStarting:
      span.cause = TimeCause::kStarting;
      break;
    case State::kComputing:
      span.cause = leaves ? TimeCause::kRecovering : TimeCause::kComputing;
      span.lost = leaves;
      break;
    case State::kWaiting:
      span.cause = blame.on == kTheServers ? TimeCause::kServers : TimeCause::kWaiting;
      span.on = blame.on;
      span.rule = blame.rule;
      break;
    case State::kParked:
      span.cause = TimeCause::kParked;
      break;
    case State::kAway:
      span.cause = TimeCause::kRecovering;
      break;
  }
  return span;
}

void TimeSpans::tell(const TimeSpan& span) const {
  if (span.end > span.start) see_(span);
}

void TimeSpans::see_open(Time now, const See& see) const {
  for (std::size_t number = 0; number < states_.size(); ++number) {
    TimeSpan open = span(number, until(now), false, {kNobody, kRunEnded});
    if (finished_at_ && states_[number].state == State::kAway) open.cause = TimeCause::kGone;
    if (open.end > open.start) see(open);
  }
}

}  // namespace paceline::report
