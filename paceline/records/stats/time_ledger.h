// The time of a run by cause: every second of every device belongs to one of a few causes. Plain values, made
// by TimeStats.
//
// Invariant: the causes of a device add up to wall(), to the nanosecond.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::report {

enum class TimeCause {
  kComputing,   // from its release to its gradient, as the device reports it, without the next two
  kLoading,     // until its samples were loaded. A program that loads them by itself counts as computing
  kWeights,     // until the weights that it was released on were made and had come
  kWaiting,     // finished, and not released yet, because a rule of the policy waits for a device
  kServers,     // finished, and not released until the servers are free or have a version complete
  kOnTheWay,    // its release and its report were under way
  kStages,      // in a pipeline's iteration: waiting for other stages, or for messages between them
  kStarting,    // before its first release
  kRecovering,  // the iteration lost when it left, and the time until it was released again
  kParked,      // no samples were left for it, or the plan had no use for it
  kGone,        // after it left, if it was never released again
};
inline constexpr std::size_t kTimeCauses = 11;
std::string_view to_string(TimeCause cause);

// The time that a device, or all of them, waited.
struct Wait {
  std::string on;    // a replica's name; empty: no replica, for example for a timer
  std::string rule;  // the part of its release's reason that is always the same
  Duration time{0};
  friend bool operator==(const Wait&, const Wait&) = default;
};

struct DeviceTime {
  std::string device;
  std::array<Duration, kTimeCauses> spent{};
  std::vector<Wait> waits;  // kWaiting and kServers in parts, the longest first

  Duration of(TimeCause cause) const { return spent[static_cast<std::size_t>(cause)]; }
  Duration total() const;
};

// The speed of a replica over the whole run.
struct MeanIteration {
  std::string replica;
  std::int64_t iterations = 0;
  Duration computed{0};  // the sum over all iterations, without waiting for weights
};

struct TimeLedger {
  Time from, until;
  std::vector<DeviceTime> devices;      // the job's devices; in a simulation those that joined, in that order
  std::vector<Wait> waits;              // sums over all devices, the longest first
  std::vector<MeanIteration> replicas;  // one for each name, in the order of their joining

  Duration off_clock{0};  // time that the job's clock did not see

  Duration wall() const { return until - from + off_clock; }
  Duration of(TimeCause cause) const;  // the sum over all devices
  // Adds time of every device: before the first release, and between attempts.
  void add_off_clock(Duration starting, Duration recovering);
};

}  // namespace paceline::report
