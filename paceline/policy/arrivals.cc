#include "paceline/policy/arrivals.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace paceline::policy {

namespace {

// Clocks and timers are no better, however even the intervals are.
constexpr double kLeastDeviation = 0.01;
// A normal distribution's standard deviation over its median difference from the median.
constexpr double kNormal = 1.4826;

double median(std::span<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Arrivals::Rhythm& Arrivals::rhythm(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (rhythms_.size() <= index) rhythms_.resize(index + 1);
  return rhythms_[index];
}

void Arrivals::released(ReplicaId replica, Time now) {
  Rhythm& rhythm = this->rhythm(replica);
  rhythm.released = now;
  if (rhythm.seen == 0) return;
  rhythm.expected = {now + bounded_seconds(rhythm.median),
                     now + bounded_seconds(rhythm.median + 2 * rhythm.sigma)};
  coming_.emplace(std::pair(rhythm.expected->at, replica), rhythm.expected->latest);
}

void Arrivals::ready(ReplicaId replica, Time now) {
  Rhythm& rhythm = this->rhythm(replica);
  forget_expected(replica, rhythm);
  const auto size = static_cast<std::int64_t>(rhythm.last.size());
  rhythm.last[static_cast<std::size_t>(rhythm.seen++ % size)] = to_seconds(now - rhythm.released);
  std::array<double, 5> sorted = rhythm.last;
  const std::span<double> values(sorted.data(), static_cast<std::size_t>(std::min(rhythm.seen, size)));
  rhythm.median = median(values);
  for (double& value : values) value = std::abs(value - rhythm.median);
  rhythm.sigma = std::max(kNormal * median(values), kLeastDeviation * rhythm.median);
}

void Arrivals::left(ReplicaId replica) {
  Rhythm& rhythm = this->rhythm(replica);
  forget_expected(replica, rhythm);
  rhythm = {};
}

void Arrivals::forget_expected(ReplicaId replica, Rhythm& rhythm) {
  if (rhythm.expected) coming_.erase({rhythm.expected->at, replica});
  rhythm.expected.reset();
}

Duration Arrivals::interval(ReplicaId replica) const {
  return bounded_seconds(rhythms_.at(static_cast<std::size_t>(replica.value())).median);
}

std::vector<Arrivals::Expected> Arrivals::coming(Time now, std::size_t most, Time until) {
  while (!coming_.empty() && coming_.begin()->second <= now) {
    const ReplicaId late = coming_.begin()->first.second;
    forget_expected(late, rhythm(late));
  }
  std::vector<Expected> next;
  for (auto it = coming_.begin(); it != coming_.end() && next.size() < most; ++it) {
    const auto& [at, latest] = std::pair(it->first.first, it->second);
    if (at > until) break;
    if (latest > now) next.push_back({at, latest});
  }
  return next;
}

}  // namespace paceline::policy
