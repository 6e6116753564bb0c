// Where the time of a run went: every second of every device under one of a few causes. Plain values, made by
// TimeStats; the table, the JSON and the sentence of it are pure functions.
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
#include "paceline/report/json_values.h"
#include "paceline/report/summary.h"

namespace paceline::report {

enum class TimeCause {
  kComputing,   // as the device reports it: from its release to its gradient, without the next two
  kLoading,     // until its samples were loaded. A program that loads them by itself computes meanwhile
  kWeights,     // until the weights that it was released on were made and had come
  kWaiting,     // finished, and not released yet: for a device, by a rule of the policy
  kServers,     // the same, until the servers are free or have a version complete
  kOnTheWay,    // its release and its report were on their way
  kStages,      // of a pipeline's iteration: for other stages, or for what passes between them
  kStarting,    // before its first release
  kRecovering,  // it left: the iteration that was lost, and until it was released again
  kParked,      // no samples were left for it, or no plan had a use for it
  kGone,        // it left and was never released again
};
inline constexpr std::size_t kTimeCauses = 11;
std::string_view to_string(TimeCause cause);

// Time that a device, or all of them, waited.
struct Wait {
  std::string on;    // a replica's name; empty: for nobody that the record names, as for a timer
  std::string rule;  // what of the reason of its release is always the same
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

// How fast a replica was, over the whole run.
struct MeanIteration {
  std::string replica;
  std::int64_t iterations = 0;
  Duration computed{0};  // all of them together, without waiting for weights
};

struct TimeLedger {
  Time from, until;
  std::vector<DeviceTime> devices;      // of the job; of a simulation in the order of their joining
  std::vector<Wait> waits;              // of all devices together, the longest first
  std::vector<MeanIteration> replicas;  // by name, in the order of their joining

  Duration off_clock{0};  // what the job's clock did not see

  Duration wall() const { return until - from + off_clock; }
  Duration of(TimeCause cause) const;  // all devices together
  // Of every device: before the first release, and between attempts.
  void add_off_clock(Duration starting, Duration recovering);
};

// What holds the run back, in a sentence: "w3 takes 3.1 times as long as the others: under BSP they wait 62 %
// of their time for it". `policy`: as RunInfo has it.
std::string what_holds_back(const TimeLedger& ledger, const std::string& policy);

// For a terminal: the sentence, a row a device (at most so many), and who was waited for by what rule.
std::string time_table(const TimeLedger& ledger, const Summary& summary, std::size_t most = 64);

// {wall_s, holds_back, devices: [{device, computing_s, waiting_s, …, waits: [{on, rule, s}]}],
// devices_left_out, waits: [{on, rule, s}]}; a key for each cause. Of waits the longest: 16 of a device,
// 1,000 of all.
Json time_json(const TimeLedger& ledger, const std::string& policy);

}  // namespace paceline::report
