// Time of a job: nanoseconds since its first release. The clock has no now(): code in a world with
// time (a process, a simulator) hands it in.
#pragma once

#include <chrono>

namespace paceline {

struct JobClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<JobClock, duration>;
  static constexpr bool is_steady = true;
};

using Duration = JobClock::duration;
using Time = JobClock::time_point;

inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double to_seconds(Time t) { return to_seconds(t.time_since_epoch()); }
inline Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
// Limits the time to at least 0 and at most about 31 years, so that sums do not overflow. NaN gives 31 years.
inline Duration bounded_seconds(double seconds) {
  constexpr double kMost = 1e9;
  return from_seconds(seconds < kMost ? (seconds > 0 ? seconds : 0) : kMost);
}

}  // namespace paceline
