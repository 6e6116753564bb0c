#include "paceline/decisions/policy/dssp.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

namespace paceline::policy {

namespace {
// The number of intervals of the long run. In a shorter one, a spell of slowness would be a large part.
constexpr std::int32_t kLongRun = 256;
// Two replicas are alike from this ratio of mean intervals on. Chance alone makes them differ by a tenth if
// one iteration in ten takes two to five times longer.
constexpr double kAlike = 0.75;

// The time after so many intervals, or the end of time, which is 292 years away. Requires: a time from 0 on.
Time after(Time from, std::int64_t times, Duration interval) {
  return times > (Time::max() - from) / interval ? Time::max() : from + times * interval;
}
}  // namespace

std::int64_t closest_extra_iterations(Time fast_last, Duration fast_interval, Time slow_last,
                                      Duration slow_interval, std::int64_t most, std::int64_t rmax) {
  const auto distance = [&](std::int64_t i, std::int64_t k) {
    return std::chrono::abs(after(fast_last, i, fast_interval) - after(slow_last, k + 1, slow_interval));
  };
  std::int64_t best = 0;
  Duration least = Duration::max();
  std::int64_t k = 0;
  for (std::int64_t i = 0; i <= most && after(fast_last, i, fast_interval) < Time::max(); ++i) {
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
  if (reading_ == DsspReading::kPrinted) return {};
  return {.gap = upper_ + 1};
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
  if (reading_ == DsspReading::kTransient) release_alike(nullptr, orders);
}

void Dssp::ready(Time now, const Ready& fact, Orders& orders) {
  clocks_.finish(fact.replica, fact.clock);
  learn(now, fact);
  orders.commit({{fact.replica, fact.clock}}, {"every gradient commits alone"});
  if (!try_release_early(fact.replica, orders)) release_or_hold(fact, orders);
  if (clocks_.slowest() != released_to_) release_within_lower(orders);
  if (reading_ == DsspReading::kTransient) release_alike(&fact.replica, orders);
}

void Dssp::learn(Time now, const Ready& fact) {
  Pace& mine = pace(fact.replica);
  if (reading_ != DsspReading::kPrinted) {
    mine.interval = fact.compute;
  } else if (mine.measured > 0) {
    mine.interval = now - mine.last_ready;
  }
  mine.last_ready = now;
  mine.measured = std::min(mine.measured + 1, kLongRun);
  if (reading_ != DsspReading::kTransient) return;
  mine.mean_ns += 1.0 / mine.measured * (static_cast<double>(fact.compute.count()) - mine.mean_ns);
}

bool Dssp::try_release_early(ReplicaId replica, Orders& orders) {
  if (reading_ == DsspReading::kTransient) return false;
  Pace& mine = pace(replica);
  const std::int64_t gap = clocks_.gap(replica);
  if (mine.granted > 0) {
    --mine.granted;
    orders.release(replica, {"{} ahead, on granted iterations, {} left", gap, mine.granted});
    return true;
  }
  if (gap <= lower_) return false;  // released with the others within the lower bound
  if (clocks_.clock(replica) != clocks_.fastest()) return false;
  const std::int64_t extra = extra_iterations(replica);
  if (extra <= 0) return false;
  mine.granted = static_cast<std::int32_t>(reading_ == DsspReading::kBounded ? extra - 1 : extra);
  orders.release(replica,
                 {"{} ahead and fastest: {} extra iterations end closest to the slowest", gap, extra});
  return true;
}

std::int64_t Dssp::extra_iterations(ReplicaId replica) {
  const Pace& fast = pace(replica);
  const Pace& slow = pace(clocks_.slowest_replica());
  if (fast.interval <= Duration::zero() || slow.interval <= Duration::zero()) return 0;
  const std::int64_t rmax = upper_ - lower_;
  const std::int64_t most =
      reading_ == DsspReading::kBounded ? std::min(rmax, upper_ + 1 - clocks_.gap(replica)) : rmax;
  return closest_extra_iterations(fast.last_ready, fast.interval, slow.last_ready, slow.interval, most, rmax);
}

void Dssp::release_or_hold(const Ready& fact, Orders& orders) {
  const std::int64_t gap = fact.clock - clocks_.slowest();
  // If the slowest clock has not changed, all other replicas within the lower bound are released already.
  if (gap <= lower_ && clocks_.slowest() == released_to_) {
    orders.release(fact.replica, {"{} ahead of the slowest, {} always allowed", gap, lower_});
  } else {
    held_.hold(fact.clock, fact.replica);
  }
}

void Dssp::release_within_lower(Orders& orders) {
  if (clocks_.empty()) return;
  const Clock slowest = clocks_.slowest();
  released_to_ = slowest;
  ReplicaId replica;
  while (held_.take_within(Clock(slowest.value() + lower_), &replica)) {
    orders.release(replica,
                   {"{} ahead of the slowest, {} always allowed", clocks_.clock(replica) - slowest, lower_});
  }
}

bool Dssp::alike(const Pace& held, const Pace& slowest) const {
  return slowest.measured > 0 && held.mean_ns >= kAlike * slowest.mean_ns;
}

void Dssp::release_alike(const ReplicaId* ready, Orders& orders) {
  if (clocks_.empty()) return;
  const Clock slowest = clocks_.slowest();
  const Pace& slow = pace(clocks_.slowest_replica());
  const bool all = std::exchange(looked_at_, slowest) != slowest || ready == nullptr;
  absl::InlinedVector<ReplicaId, 8> stay;
  const auto look_at = [&](ReplicaId replica) {
    if (!alike(pace(replica), slow)) return stay.push_back(replica);
    orders.release(replica, {"{} ahead, {} allowed: the slowest is about as fast in the long run",
                             clocks_.clock(replica) - slowest, upper_});
  };
  if (all) {
    ReplicaId replica;
    while (held_.take_within(Clock(slowest.value() + upper_), &replica)) look_at(replica);
  } else if (held_.holds(*ready) && clocks_.gap(*ready) <= upper_) {
    held_.drop(clocks_.clock(*ready), *ready);
    look_at(*ready);
  }
  for (const ReplicaId replica : stay) held_.hold(clocks_.clock(replica), replica);
}

// ---- As it is written ----

absl::StatusOr<DsspSpec> DsspSpec::parse(const PolicyText& text) {
  static constexpr char kHow[] =
      "write dssp:LOWER-UPPER, and :printed or :transient behind it if you like, for example dssp:3-15";
  const auto& parts = text.parts;
  const bool printed = parts.size() == 3 && parts[2] == "printed";
  const bool transient = parts.size() == 3 && parts[2] == "transient";
  if (parts.size() != 2 && !printed && !transient) return text.wrong(kHow);
  const std::vector<std::string> ends = absl::StrSplit(parts[1], '-');
  if (ends.size() != 2) return text.wrong(kHow);
  const auto lower = iterations(ends[0]);
  const auto upper = iterations(ends[1]);
  if (!lower || !upper) return text.wrong(kHow);
  if (*lower > *upper) {
    return text.wrong(
        fmt::format("the lower bound {0} is above the upper bound {1}; write dssp:{1}-{0}", *lower, *upper));
  }
  return DsspSpec{*lower, *upper,
                  printed     ? DsspReading::kPrinted
                  : transient ? DsspReading::kTransient
                              : DsspReading::kBounded};
}
std::vector<std::string> DsspSpec::examples() {
  return {"dssp:0-2", "dssp:1-3", "dssp:0-1:printed", "dssp:0-2:transient"};
}
std::string DsspSpec::text() const {
  static constexpr const char* kReadings[] = {"", ":printed", ":transient"};
  return fmt::format("{}:{}-{}{}", kName, lower, upper, kReadings[static_cast<std::size_t>(reading)]);
}
std::unique_ptr<SyncPolicy> DsspSpec::make() const { return std::make_unique<Dssp>(lower, upper, reading); }

}  // namespace paceline::policy
