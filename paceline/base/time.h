// Time of a job: nanoseconds since its first release. The clock has no now(): whoever lives in a world with
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

}  // namespace paceline
