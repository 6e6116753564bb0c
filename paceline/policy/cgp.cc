#include "paceline/policy/cgp.h"

#include <algorithm>

namespace paceline::policy {

namespace {
// The plan of `dp` looks at no larger groups: its cost grows with them.
constexpr std::size_t kLargestPlanned = 64;
}  // namespace

void Cgp::joined(Time now, const Joined& fact, Orders& orders) {
  release(fact.replica, now, orders, {"joined: takes part from here on"});
  close_due(now, orders);  // with more replicas each is waited for less
}

void Cgp::left(Time now, const Left& fact, Orders& orders) {
  arrivals_.left(fact.replica);
  const auto index = static_cast<std::size_t>(fact.replica.value());
  computing_.erase({released_on_[index], fact.replica});
  const auto mine = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
    return one.contribution.replica == fact.replica;
  });
  if (mine != waiting_.end()) {
    orders.discard(mine->contribution, {"left before its group was closed"});
    waiting_.erase(mine);
  }
  deadline_.reset();
  close_due(now, orders);
}

void Cgp::ready(Time now, const Ready& fact, Orders& orders) {
  arrivals_.ready(fact.replica, now);
  computing_.erase({released_on_[static_cast<std::size_t>(fact.replica.value())], fact.replica});
  waiting_.push_back({{fact.replica, fact.clock}, fact.base, now});
  deadline_.reset();
  close_due(now, orders);
}

void Cgp::timer(Time now, Orders& orders) {
  // If it rang a little early, it is asked for again.
  wake_.reset();
  close_due(now, orders);
}

void Cgp::completed(Time now, const Completed& fact, Orders& orders) {
  path_.completed(fact.version, now);
  close_due(now, orders);
}

Bounds Cgp::bounds() const {
  if (options_.staleness == CgpOptions::kNoLimit) return {};
  return {.version_staleness = options_.staleness};
}

Reduction Cgp::reduction() const { return options_.k_max > 1 ? Reduction::kInGroup : Reduction::kAtServers; }

void Cgp::close_due(Time now, Orders& orders) {
  Time wake = Time::max();
  while (!waiting_.empty()) {
    wake = Time::max();
    const std::optional<Reason> why = closing(now, orders.latest(), wake);
    if (!why) break;
    close(now, *why, orders);
  }
  if (waiting_.empty()) blocked_ = false;
  if (waiting_.empty() || wake == Time::max() || wake_ == wake) return;
  wake_ = wake;
  orders.wake_at(wake);
}

std::optional<Reason> Cgp::closing(Time now, Version latest, Time& wake) {
  const auto k = static_cast<std::int64_t>(waiting_.size());
  if (bound_blocks(latest)) {
    blocked_ = true;
    return std::nullopt;
  }
  if (blocked_) return Reason{"bound: {} are ready, and nobody is too stale any more", k};
  if (k >= options_.k_max) return Reason{"full: {} are ready", k};
  if (computing_.empty()) return Reason{"everyone: all {} live replicas are ready", k};
  if (!deadline_) deadline_ = deadline(now);
  if (*deadline_ <= now)
    return Reason{"timer: {} of at least {} are ready, and nobody else in time", k, options_.k_min};
  wake = *deadline_;
  if (k < options_.k_min) return std::nullopt;
  if (options_.grouping != Grouping::kNatural) return closing_by_plan(now, wake);
  if (const std::optional<Time> until = patient_until(now)) {
    wake = std::min(wake, *until);
    return std::nullopt;
  }
  const std::optional<Time> free = path_.free_soon(waiting_.size());
  if (free && *free <= now) return Reason{"path free: {} of {} live replicas are ready", k, live()};
  if (free) wake = std::min(wake, *free);
  return std::nullopt;
}

std::optional<Reason> Cgp::closing_by_plan(Time now, Time& wake) {
  const std::optional<Time> latest = worth_waiting_for(now);
  if (!latest) {
    return Reason{"plan: {} are ready, and nobody else is worth waiting for",
                  static_cast<std::int64_t>(waiting_.size())};
  }
  wake = std::min(wake, *latest);
  return std::nullopt;
}

std::optional<Time> Cgp::patient_until(Time now) {
  if (options_.patience == 0) return std::nullopt;
  const auto next = arrivals_.coming(now, 1);
  if (next.empty()) return std::nullopt;
  double rates = 0;  // a second
  for (const Waiting& one : waiting_)
    rates += 1 / std::max(to_seconds(arrivals_.interval(one.contribution.replica)), 1e-9);
  const double share = options_.patience / static_cast<double>(live());
  const Duration most = bounded_seconds(share * static_cast<double>(waiting_.size()) / rates);
  const Time until = std::min(next[0].latest, next[0].at + most);
  if (next[0].at - now > most || until <= now) return std::nullopt;
  return until;
}

bool Cgp::bound_blocks(Version latest) const {
  return !computing_.empty() && latest.next() - computing_.begin()->first > options_.staleness;
}

Time Cgp::deadline(Time now) {
  if (options_.wait_max == CgpOptions::kForever) return Time::max();
  const Time cap = options_.wait_max ? waiting_.front().since + *options_.wait_max : Time::max();
  const auto k = static_cast<std::int64_t>(waiting_.size());
  if (k >= options_.k_min) return cap;
  const auto missing = std::min(options_.k_min, live()) - k;
  const auto coming = arrivals_.coming(now, static_cast<std::size_t>(missing));
  Time latest = now;
  for (const Arrivals::Expected& one : coming) latest = std::max(latest, one.latest);
  return std::min(cap, latest);
}

std::optional<Time> Cgp::worth_waiting_for(Time now) {
  const std::size_t k = waiting_.size();
  const GroupCosts costs{path_.global(), path_.queue(now),
                         [this](std::size_t members) { return path_.reduce(members); }};
  const auto after = [&](const Arrivals::Expected& one) { return std::max(Duration::zero(), one.at - now); };
  if (options_.grouping == Grouping::kWindow) {
    const auto next = arrivals_.coming(now, 1);
    if (next.empty() || !window_stays_open(k, after(next[0]), costs)) return std::nullopt;
    return next[0].latest;
  }
  const auto coming = arrivals_.coming(now, computing_.size());
  std::vector<Duration> waits(k, Duration::zero());
  for (const Arrivals::Expected& one : coming) waits.push_back(after(one));
  const auto largest =
      static_cast<std::size_t>(std::min(options_.k_max, static_cast<std::int64_t>(kLargestPlanned)));
  const std::size_t first = best_first_group(waits, k, largest, costs);
  if (first <= k) return std::nullopt;
  return coming[first - k - 1].latest;
}

void Cgp::close(Time now, const Reason& why, Orders& orders) {
  const std::vector<Waiting> group = take_group(orders.latest());
  absl::InlinedVector<Contribution, 1> members;
  for (const Waiting& one : group) members.push_back(one.contribution);
  std::sort(members.begin(), members.end());
  orders.commit(members, why);
  if (hears_of_completion()) path_.ordered(orders.latest(), members.size(), now);
  for (const Contribution& member : members) {
    release(member.replica, now, orders,
            {"its group of {} is committed", static_cast<std::int64_t>(members.size())});
  }
  deadline_.reset();
  blocked_ = false;
}

std::vector<Cgp::Waiting> Cgp::take_group(Version latest) {
  std::vector<Waiting> group;
  if (static_cast<std::int64_t>(waiting_.size()) <= options_.k_max) {
    group.swap(waiting_);
    return group;
  }
  // More than fit, which only the bound brings about: the stalest first, and all that could not wait.
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.base < b.base; });
  auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(options_.k_max);
  while (end != waiting_.end() && latest.next() - end->base > options_.staleness) ++end;
  group.assign(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.since < b.since; });
  return group;
}

void Cgp::release(ReplicaId replica, Time now, Orders& orders, const Reason& why) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (released_on_.size() <= index) released_on_.resize(index + 1);
  released_on_[index] = orders.latest();
  computing_.emplace(orders.latest(), replica);
  arrivals_.released(replica, now);
  orders.release(replica, why);
}

}  // namespace paceline::policy
