#include "paceline/policy/dssp.h"

#include <algorithm>
#include <chrono>

namespace paceline::policy {

std::int64_t closest_extra_iterations(Time fast_last, Duration fast_interval, Time slow_last,
                                      Duration slow_interval, std::int64_t most, std::int64_t rmax) {
  const auto distance = [&](std::int64_t i, std::int64_t k) {
    return std::chrono::abs((fast_last + i * fast_interval) - (slow_last + (k + 1) * slow_interval));
  };
  std::int64_t best = 0;
  Duration least = Duration::max();
  std::int64_t k = 0;
  for (std::int64_t i = 0; i <= most; ++i) {
    // Both rows ascend: the slow time closest to a later fast time is never an earlier one.
    while (k < rmax && distance(i, k + 1) <= distance(i, k)) ++k;
    if (distance(i, k) < least) {
      least = distance(i, k);
      best = i;
    }
  }
  return best;
}

Bounds Dssp::bounds() const {
  if (!bounded_) return {};
  return {.gap = std::max(upper_, lower_ + 1)};
}

void Dssp::joined(Time, const Joined& fact, Orders& orders) {
  clocks_.join(fact.replica, fact.clock);
  const auto index = static_cast<std::size_t>(fact.replica.value());
  if (index >= paces_.size()) paces_.resize(index + 1);
  paces_[index] = Pace{};
  orders.release(fact.replica, {"joined at the slowest clock"});
}

void Dssp::left(Time, const Left& fact, Orders& orders) {
  held_.drop(clocks_.clock(fact.replica), fact.replica);
  clocks_.leave(fact.replica);
  release_within_lower(orders);
}

void Dssp::ready(Time now, const Ready& fact, Orders& orders) {
  clocks_.finish(fact.replica, fact.clock);
  learn(now, fact);
  orders.commit({{fact.replica, fact.clock}}, {"every gradient commits alone"});
  if (!try_release(fact.replica, orders)) held_.hold(fact.clock, fact.replica);
  release_within_lower(orders);
}

void Dssp::learn(Time now, const Ready& fact) {
  Pace& mine = pace(fact.replica);
  if (bounded_) {
    mine.interval = fact.compute;
  } else if (mine.seen) {
    mine.interval = now - mine.last_ready;
  }
  mine.seen = true;
  mine.last_ready = now;
}

bool Dssp::try_release(ReplicaId replica, Orders& orders) {
  Pace& mine = pace(replica);
  const std::int64_t gap = clocks_.gap(replica);
  if (mine.granted > 0) {
    --mine.granted;
    orders.release(replica, {"{} ahead, on granted iterations, {} left", gap, mine.granted});
    return true;
  }
  if (gap <= lower_) {
    orders.release(replica, {"{} ahead of the slowest, {} always allowed", gap, lower_});
    return true;
  }
  if (clocks_.clock(replica) != clocks_.fastest()) return false;
  const std::int64_t extra = extra_iterations(replica);
  if (extra <= 0) return false;
  mine.granted = bounded_ ? extra - 1 : extra;
  orders.release(replica,
                 {"{} ahead and fastest: {} extra iterations end closest to the slowest", gap, extra});
  return true;
}

std::int64_t Dssp::extra_iterations(ReplicaId replica) {
  const Pace& fast = pace(replica);
  const Pace& slow = pace(clocks_.slowest_replica());
  if (fast.interval <= Duration::zero() || slow.interval <= Duration::zero()) return 0;
  const std::int64_t rmax = upper_ - lower_;
  const std::int64_t most = bounded_ ? std::min(rmax, upper_ - clocks_.gap(replica)) : rmax;
  return closest_extra_iterations(fast.last_ready, fast.interval, slow.last_ready, slow.interval, most, rmax);
}

void Dssp::release_within_lower(Orders& orders) {
  if (clocks_.empty()) return;
  const Clock slowest = clocks_.slowest();
  ReplicaId replica;
  while (held_.take_within(Clock(slowest.value() + lower_), &replica)) {
    orders.release(replica,
                   {"{} ahead of the slowest, {} always allowed", clocks_.clock(replica) - slowest, lower_});
  }
}

}  // namespace paceline::policy
