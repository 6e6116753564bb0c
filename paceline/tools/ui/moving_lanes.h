// The latest activity of each device: computing, or waiting for which replica by which rule; and the groups
// that formed. For lanes that move while a run trains. A fold; pure; one thread; memory is bounded by the
// number of devices.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/time_spans.h"

namespace paceline::ui {

class MovingLanes final : public control::RunListener {
 public:
  static constexpr Duration kLongest = std::chrono::seconds(30);  // the longest time that lanes show
  static constexpr std::size_t kMostSpans = 1000;                 // the most spans of all lanes together
  static constexpr std::size_t kMostOfLane = 100;
  static constexpr std::size_t kMostLanes = 24;
  static constexpr std::size_t kMostGroups = 200;

  // `devices`: RunInfo's.
  explicit MovingLanes(std::vector<std::string> devices);
  MovingLanes(const MovingLanes& other);

  void on_fact(const control::Fact& fact) override { spans_.on_fact(fact); }
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated&) override {}

  const std::vector<std::string>& devices() const { return spans_.devices(); }
  // The present activity of a device: its cause, and for how long.
  struct Now {
    report::TimeCause cause = report::TimeCause::kStarting;
    double for_s = 0;
  };
  std::vector<Now> now(Time now) const;

  // The lanes of these devices, in this order, at most kMostLanes; as much of the latest time as can be
  // drawn:
  //   {from_s, to_s, names: [text], rules: [text],
  //    lanes: [{device, spans: [[start_s, length_s, cause, on, rule]]}],
  //    groups: [[time_s, version, size, [lane], rule]], left_out}
  // `cause` is a number of report::TimeCause; `on` is an index into names, −1 nobody, −2 the servers; `rule`
  // is an index into rules, −1 none.
  report::Json json(Time now, const std::vector<std::size_t>& devices) const;

 private:
  struct Formed {
    Time at;
    Version version;
    std::size_t size = 0;
    std::vector<std::size_t> devices;
    std::string why;
  };

  void keep(const report::TimeSpan& span);

  std::vector<std::deque<report::TimeSpan>> latest_;  // indexed by device
  std::deque<Formed> groups_;
  report::TimeSpans spans_;
};

}  // namespace paceline::ui
