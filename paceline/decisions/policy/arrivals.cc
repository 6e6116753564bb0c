#include "paceline/decisions/policy/arrivals.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace paceline::policy {

namespace {

// Clocks and timers are no better, however even the intervals are.
constexpr double kLeastDeviation = 0.01;
// √(2/π), the mean of the rest of a normal distribution, in σ.
constexpr double kLate = 0.798;
// A normal distribution's standard deviation over its median difference from the median.
constexpr double kNormal = 1.4826;

// The time after the last moment before.
constexpr Duration kNext{1};

double median(double a, double b, double c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }

// The least and the greatest of the first four values are not the median of five. There are no branches, because
// nobody can predict them.
double median(const std::array<double, 5>& values) {
  const auto [a, b, c, d, e] = values;
  return median(std::max(std::min(a, b), std::min(c, d)), std::min(std::max(a, b), std::max(c, d)), e);
}

double median(std::span<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The median of the first `count`. Requires: 0 < count ≤ 5.
double median(std::array<double, 5> values, std::size_t count) {
  return count == values.size() ? median(values) : median(std::span(values).first(count));
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
  const Time at = now + bounded_seconds(rhythm.median);
  const Time latest = now + bounded_seconds(rhythm.median + 2 * rhythm.sigma);
  rhythm.expected = {at, latest, bounded_seconds(kLate / 2 * to_seconds(latest - at))};
  coming_.put({*rhythm.expected, replica});
  if (at > due_until_) return;
  due_.put({rhythm.expected->late, replica});
  overdue_at_.emplace(latest, replica);
}

void Arrivals::ready(ReplicaId replica, Time now) {
  Rhythm& rhythm = this->rhythm(replica);
  forget_expected(replica, rhythm);
  const auto size = static_cast<std::int64_t>(rhythm.last.size());
  rhythm.last[static_cast<std::size_t>(rhythm.seen++ % size)] = to_seconds(now - rhythm.released);
  const auto count = static_cast<std::size_t>(std::min(rhythm.seen, size));
  rhythm.median = median(rhythm.last, count);
  std::array<double, 5> away = rhythm.last;
  for (double& value : away) value = std::abs(value - rhythm.median);
  rhythm.sigma = std::max(kNormal * median(away, count), kLeastDeviation * rhythm.median);
}

void Arrivals::left(ReplicaId replica) {
  Rhythm& rhythm = this->rhythm(replica);
  forget_expected(replica, rhythm);
  rhythm = {};
}

void Arrivals::forget_expected(ReplicaId replica, Rhythm& rhythm) {
  if (!rhythm.expected) return;
  coming_.erase({*rhythm.expected, replica});
  if (rhythm.expected->at <= due_until_) due_.erase({rhythm.expected->late, replica});
  rhythm.expected.reset();
}

void Arrivals::forget_overdue(Time now) {
  while (!coming_.empty() && coming_.front().expected.latest <= now) {
    const ReplicaId late = coming_.front().replica;
    forget_expected(late, rhythm(late));
  }
}

void Arrivals::count_as_due(Time now) {
  if (now <= due_until_) return;
  coming_.walk(coming_.before(behind(due_until_)), [&](const Coming& one) {
    if (one.expected.at > now) return false;
    due_.put({one.expected.late, one.replica});
    overdue_at_.emplace(one.expected.latest, one.replica);
    return true;
  });
  due_until_ = now;
  for (; !overdue_at_.empty() && overdue_at_.top().first <= now; overdue_at_.pop()) {
    const auto [latest, replica] = overdue_at_.top();
    Rhythm& rhythm = this->rhythm(replica);
    if (rhythm.expected && rhythm.expected->latest == latest) forget_expected(replica, rhythm);
  }
}

Duration Arrivals::interval(ReplicaId replica) const {
  return bounded_seconds(rhythms_.at(static_cast<std::size_t>(replica.value())).median);
}

std::vector<Arrivals::Expected> Arrivals::coming(Time now, std::size_t most, Time until) {
  forget_overdue(now);
  std::vector<Expected> next;
  if (most == 0) return next;
  coming_.walk(coming_.begin(), [&](const Coming& one) {
    if (one.expected.at > until) return false;
    if (one.expected.latest > now) next.push_back(one.expected);
    return next.size() < most;
  });
  return next;
}

void Arrivals::waits(Time now, std::size_t most, Duration longest, std::vector<Duration>& found) {
  forget_overdue(now);
  found.clear();
  if (most == 0) return;
  coming_.walk(coming_.begin(), [&](const Coming& one) {
    if (one.expected.at > now + longest) return false;
    if (one.expected.latest <= now) return true;
    if (one.expected.wait(now) <= longest) found.push_back(one.expected.wait(now));
    return --most > 0;
  });
}

// If only n come within the wait for `most`, no number above n comes within its own wait. And so on. Those that
// are not due are first counted in blocks, as though each came at its expected time at the latest. The few that
// are left are looked at.
std::size_t Arrivals::largest_within(Time now, double each_s, std::size_t most) {
  forget_overdue(now);
  count_as_due(now);
  const auto ahead = coming_.before(behind(now));
  // Replicas that are due are before all others, and coming() gives no more than this.
  const std::size_t most_ahead = most - std::min(most, due_.size());
  const auto wait_for = [&](std::size_t n) { return bounded_seconds(each_s * static_cast<double>(n)); };
  for (std::size_t come = 0; most > 0; most = come) {
    const Duration wait = wait_for(most);
    come = due_.count(due_.begin(), {wait + kNext, ReplicaId(0)}, most);
    come += coming_.count(ahead, behind(now + wait), std::min(most - come, most_ahead));
    if (come == most) break;
  }
  if (most == 0) return 0;
  find_near(now, ahead, wait_for(most), most, most_ahead);
  while (most > near_.size()) {
    most = near_.size();
    std::erase_if(near_, [longest = wait_for(most)](Duration wait) { return wait > longest; });
  }
  return most;
}

void Arrivals::find_near(Time now, SortedBlocks<Coming>::Place ahead, Duration longest, std::size_t most_due,
                         std::size_t most_ahead) {
  near_.clear();
  due_.walk(due_.begin(), [&](const Due& one) {
    if (one.late > longest) return false;
    near_.push_back(one.late);
    return --most_due > 0;
  });
  if (most_ahead == 0) return;
  coming_.walk(ahead, [&](const Coming& one) {
    if (one.expected.at > now + longest) return false;
    if (one.expected.late <= longest) near_.push_back(one.expected.wait(now));
    return --most_ahead > 0;
  });
}

}  // namespace paceline::policy
