// The sums of a run's spans: adds up the spans of its devices (TimeSpans) into a TimeLedger, live or from a
// replayed journal. If batches tell how long each stage of a pipeline really computed (control::BatchDone),
// the rest of an iteration counts as waiting for other stages.
//
// Pure; one thread. Memory is bounded by the number of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/stats/time_ledger.h"
#include "paceline/records/stats/time_spans.h"

namespace paceline::report {

class TimeStats final : public control::RunListener {
 public:
  // About this many of a device's longest waits are kept apart; the others are added up.
  static constexpr std::size_t kMostWaits = 64;

  // `devices`: RunInfo's; may be empty, then each replica is a device.
  explicit TimeStats(std::vector<std::string> devices);
  TimeStats(const TimeStats& other);

  void on_fact(const control::Fact& fact) override { spans_.on_fact(fact); }
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated&) override {}

  // `now`: not before the latest event; after the end it does not matter.
  TimeLedger ledger(Time now) const;
  // The part of the ledger that will not change any more: spans that have ended, and the stages' work until
  // the latest batch. These numbers never fall from one call to the next, but they do not add up to the wall
  // time.
  TimeLedger settled() const;

 private:
  static constexpr std::int32_t kOthers = -3;
  // keyed by the replica waited for and the rule
  using Waits = std::map<std::pair<std::int32_t, std::int32_t>, Duration>;
  struct Spent {
    std::array<Duration, kTimeCauses> causes{};
    Waits waits;
    Duration unsplit{0};  // computed since the latest batch, as its replica reports it
    bool in_pipeline = false;
  };

  void split(const control::BatchDone& batch);
  static void add(std::vector<Spent>& all, Waits& together, const TimeSpan& span);
  TimeLedger ledger_of(const std::vector<Spent>& all, const Waits& together, Time until) const;
  static void charge(Spent& spent, TimeCause cause, Duration time);
  static void keep_longest(Waits& waits);
  std::vector<Wait> named(const Waits& waits) const;

  const std::vector<std::string> names_;
  std::vector<Spent> spent_;  // indexed by device of spans_
  Waits together_;            // sums over all devices
  TimeSpans spans_;
};

}  // namespace paceline::report
