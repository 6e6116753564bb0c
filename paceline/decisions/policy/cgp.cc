#include "paceline/decisions/policy/cgp.h"

#include <algorithm>

namespace paceline::policy {

namespace {
// The plan of `dp` looks at no larger groups: its cost grows with them.
constexpr std::size_t kLargestPlanned = 64;
// The shortest iteration, in seconds, so that it can be a divisor.
constexpr double kShortest = 1e-9;
// The most arrivals that patience looks at, because its cost grows with them.
constexpr std::size_t kMostLookedAt = 256;
// The share of a round that moves the mean delay.
constexpr double kDelayStep = 0.25;
// Limits of the purse, in iterations a replica.
constexpr double kFull = 1, kMostOwed = 1;
}  // namespace

void Cgp::joined(Time now, const Joined& fact, Orders& orders) {
  release(fact.replica, false, now, orders, {"joined: takes part from here on"});
  close_due(now, orders);  // if there are more replicas, each is waited for less
}

void Cgp::left(Time now, const Left& fact, Orders& orders) {
  arrivals_.left(fact.replica);
  computing_.erase(fact.replica);
  const auto mine = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
    return one.contribution.replica == fact.replica;
  });
  if (mine != waiting_.end()) {
    orders.discard(mine->contribution, {"left before its group was closed"});
    waiting_.erase(mine);
    count_lost();
  }
  plan_.reset();
  deadline_.reset();
  close_due(now, orders);
}

void Cgp::ready(Time now, const Ready& fact, Orders& orders) {
  arrivals_.ready(fact.replica, now);
  const Released& mine = released(fact.replica);
  if (mine.by_commit && fact.pulled > Duration::zero())
    back_.arrived(mine.on, now - fact.compute + fact.pulled);
  computing_.erase(fact.replica);
  const double seconds = std::max(to_seconds(arrivals_.interval(fact.replica)), kShortest);
  waiting_.push_back({{fact.replica, fact.clock}, fact.base, now, seconds});
  lost_ += 1 / seconds;
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
    could_go_.reset();
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
  if (!could_go_) {
    if (ways_busy(now, wake)) return std::nullopt;
    could_go_ = now;
    could_go_with_ = waiting_.size();
  }
  if (const std::optional<Time> until = patient_until(now)) {
    wake = std::min(wake, *until);
    return std::nullopt;
  }
  return Reason{"path free: {} of {} live replicas are ready", k, live()};
}

bool Cgp::ways_busy(Time now, Time& wake) const {
  const std::optional<Time> there = path_.free_soon(waiting_.size());
  if (!there) return true;
  const Time free = std::max(*there, back_.free_soon(waiting_.size()));
  if (free > now) wake = std::min(wake, free);
  return free > now;
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
  if (purse_ <= 0) return std::nullopt;
  const std::size_t k = waiting_.size();
  const double worth = purse_ * static_cast<double>(k) / static_cast<double>(live());
  if (plan_ && plan_->until > now && plan_->members > k) {
    const std::size_t missing = plan_->members - k;
    if (static_cast<double>(missing) * worth > cost_of_waiting(missing, plan_->until - now))
      return plan_->until;
  }
  plan_.reset();
  // A longer wait costs more than all that are looked at are worth. The millionth is for rounding.
  const double each_s = 1.000001 * worth / lost_;
  std::size_t most = arrivals_.largest_within(now, each_s, std::min(computing_.size(), kMostLookedAt));
  if (most == 0) return std::nullopt;
  arrivals_.waits(now, kMostLookedAt, bounded_seconds(each_s * static_cast<double>(most)), waits_);
  // If fewer come than that, they are worth less, and so on.
  while (most > waits_.size()) {
    most = waits_.size();
    std::erase_if(waits_, [longest = bounded_seconds(each_s * static_cast<double>(most))](Duration wait) {
      return wait > longest;
    });
  }
  if (waits_.empty()) return std::nullopt;
  std::sort(waits_.begin(), waits_.end());
  least_.clear();
  for (const Duration wait : waits_) least_.push_back(lost_ * to_seconds(wait));
  const std::size_t best =
      best_number(least_, worth, [&](std::size_t more) { return cost_of_waiting(more, waits_[more - 1]); });
  if (best == 0) return std::nullopt;
  plan_ = {now + waits_[best - 1], k + best};
  return plan_->until;
}

double Cgp::cost_of_waiting(std::size_t more, Duration wait) const {
  const std::size_t k = waiting_.size();
  const double members = static_cast<double>(k + more) / static_cast<double>(k);
  return lost_ * (to_seconds(wait) + members * to_seconds(dearer(k, k + more)));
}

Duration Cgp::dearer(std::size_t few, std::size_t many) const {
  return std::max(Duration::zero(), path_.alone(many) - path_.alone(few));
}

void Cgp::count_lost() {
  lost_ = 0;
  for (const Waiting& one : waiting_) lost_ += 1 / one.seconds;
}

void Cgp::pay(const std::vector<Waiting>& group, Time now) {
  const auto k = static_cast<double>(group.size());
  const double replicas = k + static_cast<double>(live());
  double late = 0;    // gradients committed while each of these was computed
  double waited = 0;  // iterations
  const Duration longer = could_go_ ? dearer(could_go_with_, group.size()) : Duration::zero();
  for (const Waiting& one : group) {
    late += static_cast<double>(committed_ - released(one.contribution.replica).after);
    if (could_go_) waited += to_seconds(now - std::max(one.since, *could_go_) + longer) / one.seconds;
  }
  delay_ += kDelayStep * k / replicas * (late / k / replicas - delay_);
  const double earned = delay_ > options_.delay ? options_.patience * k : 0;
  purse_ = std::clamp(purse_ + (earned - waited) / replicas, -kMostOwed, kFull);
  committed_ += static_cast<std::int64_t>(group.size());
}

bool Cgp::bound_blocks(Version latest) const {
  if (computing_.empty()) return false;
  const Released& stalest = released_[static_cast<std::size_t>(computing_.oldest().value())];
  return latest.next() - stalest.on > options_.staleness;
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
  take_group(orders.latest());
  count_lost();
  pay(group_, now);
  absl::InlinedVector<Contribution, 1> members;
  for (const Waiting& one : group_) members.push_back(one.contribution);
  std::sort(members.begin(), members.end());
  orders.commit(members, why);
  if (hears_of_completion()) {
    path_.ordered(orders.latest(), members.size(), now);
    back_.ordered(orders.latest(), members.size(), now);
  }
  for (const Contribution& member : members) {
    release(member.replica, true, now, orders,
            {"its group of {} is committed", static_cast<std::int64_t>(members.size())});
  }
  deadline_.reset();
  blocked_ = false;
  could_go_.reset();
  plan_.reset();
}

void Cgp::take_group(Version latest) {
  group_.clear();
  if (static_cast<std::int64_t>(waiting_.size()) <= options_.k_max) {
    group_.swap(waiting_);
    return;
  }
  // More than fit, which only the bound brings about: the stalest first, and all that could not wait.
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.base < b.base; });
  auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(options_.k_max);
  while (end != waiting_.end() && latest.next() - end->base > options_.staleness) ++end;
  group_.assign(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.since < b.since; });
}

void Cgp::release(ReplicaId replica, bool by_commit, Time now, Orders& orders, const Reason& why) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (released_.size() <= index) released_.resize(index + 1);
  released_[index] = {orders.latest(), committed_, by_commit};
  computing_.put(replica);
  arrivals_.released(replica, now);
  orders.release(replica, why);
}

}  // namespace paceline::policy
