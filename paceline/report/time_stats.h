// Where the time went: adds up the spans of a run's devices (TimeSpans) into a TimeLedger, live or from a
// replayed journal. Where the run's batches tell what each stage of a pipeline really computed
// (control::BatchDone), the rest of an iteration was spent on other stages.
//
// Pure; one thread. Memory is bounded by the number of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/control/run_listener.h"
#include "paceline/report/time_ledger.h"
#include "paceline/report/time_spans.h"

namespace paceline::report {

class TimeStats final : public control::RunListener {
 public:
  // The parts of a device's waiting that are kept apart: about the longest so many; the others are added up.
  static constexpr std::size_t kMostWaits = 64;

  // `devices`: RunInfo's; may be empty, then each replica is a device.
  explicit TimeStats(std::vector<std::string> devices);

  void on_fact(const control::Fact& fact) override { spans_.on_fact(fact); }
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated&) override {}

  // `now`: not before the latest event; after the end it does not matter.
  TimeLedger ledger(Time now) const;
  // Of that, only what will not change any more: spans that have ended, and what stages did until the latest
  // batch. Its numbers never fall from one call to the next, but they do not add up to the wall time.
  TimeLedger settled() const;

 private:
  static constexpr std::int32_t kOthers = -3;
  using Waits = std::map<std::pair<std::int32_t, std::int32_t>, Duration>;  // by whom and by rule
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
  std::vector<Spent> spent_;  // by device of spans_
  Waits together_;            // of all devices
  TimeSpans spans_;
};

}  // namespace paceline::report
