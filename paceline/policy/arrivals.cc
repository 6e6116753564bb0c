#include "paceline/policy/arrivals.h"

#include <algorithm>
#include <cmath>

namespace paceline::policy {

namespace {
constexpr double kRhythmStep = 0.25;
// Clocks and timers are no better, however even the intervals are.
constexpr double kLeastDeviation = 0.01;
}  // namespace

void Arrivals::released(ReplicaId replica, Time now) {
  Rhythm& rhythm = rhythms_[replica];
  rhythm.released = now;
  if (!rhythm.mean) return;
  const double deviation = std::max(std::sqrt(rhythm.variance), kLeastDeviation * *rhythm.mean);
  rhythm.expected = {now + bounded_seconds(*rhythm.mean),
                     now + bounded_seconds(*rhythm.mean + 2 * deviation)};
  coming_.emplace(rhythm.expected->at, replica);
}

void Arrivals::ready(ReplicaId replica, Time now) {
  Rhythm& rhythm = rhythms_[replica];
  forget_expected(replica, rhythm);
  const double interval = to_seconds(now - rhythm.released);
  const double difference = interval - rhythm.mean.value_or(interval);
  rhythm.mean = interval - (1 - kRhythmStep) * difference;
  rhythm.variance = (1 - kRhythmStep) * (rhythm.variance + kRhythmStep * difference * difference);
}

void Arrivals::left(ReplicaId replica) {
  const auto found = rhythms_.find(replica);
  if (found == rhythms_.end()) return;
  forget_expected(replica, found->second);
  rhythms_.erase(found);
}

void Arrivals::forget_expected(ReplicaId replica, Rhythm& rhythm) {
  if (rhythm.expected) coming_.erase({rhythm.expected->at, replica});
  rhythm.expected.reset();
}

Duration Arrivals::interval(ReplicaId replica) const { return bounded_seconds(*rhythms_.at(replica).mean); }

std::vector<Arrivals::Expected> Arrivals::coming(Time now, std::size_t most) {
  const auto overdue = [&](ReplicaId replica) { return rhythms_.at(replica).expected->latest <= now; };
  while (!coming_.empty() && overdue(coming_.begin()->second)) {
    const ReplicaId late = coming_.begin()->second;
    forget_expected(late, rhythms_.at(late));
  }
  std::vector<Expected> next;
  for (auto it = coming_.begin(); it != coming_.end() && next.size() < most; ++it) {
    if (!overdue(it->second)) next.push_back(*rhythms_.at(it->second).expected);
  }
  return next;
}

}  // namespace paceline::policy
