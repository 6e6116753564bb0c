// What a page shows of a run, as JSON: pure functions from the folds of a run to parts of bounded size.
// Unknown is null, times are seconds of the job's clock.
//
//   head     {title, policy, world, state, why, trouble, holds_back (now), held_back (over the whole run),
//   at_s,
//            elapsed_s, samples, total_samples, samples_per_s (of late), left_s, iterations, commits,
//            wait_share, wait_of_late, gap, staleness_mean, staleness_max, group_size, training_loss, loss,
//            accuracy, best_accuracy, live, replicas, attempts, lost_commits, update_s, learning_rate,
//            target}: replicas are those that there were, by name: one that came again is one
//   curves   {evaluations: [[time_s, samples, version, loss, accuracy]], training: [[time_s, samples,
//   version,
//            loss]], rate: [[time_s, samples, version, samples_per_s]], target}
//   lanes    MovingLanes::json
//   devices  {rows: [{name, doing, why, iterations, samples, speed, past, middle, waited_for_s, wait_share,
//            discarded}], left_out, middle}: first those that the others wait for most
//   groups   {staleness: {bin_width, counts}, sizes: [{from, to, commits}], causes: [text], latest: [[time_s,
//            version, size, who, why]]}: sizes and causes as in report_json
//   events   {list: [[time_s, replica, text]], left_out}: the newest first
//   plan     null or {words, since_s, why, re_plans, predicted_ms, measured_ms, plans: [[from_s, words,
//   why]]} time     {wall_s, off_by_s, causes: [text], devices: [[name, seconds by cause…]], left_out, waits:
//   [[on, rule,
//            s]]}
//   links    {rows: [[from, to, kind, bytes, bytes_per_s (of late)]], left_out}: the busiest first; of runs
//   over
//            several hosts
//   memory   {rows: [[process, resident_bytes]], left_out}: the largest first
//   servers  {rows: [[server, commits, seconds of a commit of late, GB/s of weights made of late]],
//   left_out}: the
//            slowest first
#pragma once

#include <string>

#include "paceline/report/history.h"
#include "paceline/report/json_values.h"
#include "paceline/report/summary.h"
#include "paceline/report/time_ledger.h"
#include "paceline/ui/moving_lanes.h"
#include "paceline/ui/recent.h"
#include "paceline/ui/run_state.h"
#include "paceline/ui/traffic.h"

namespace paceline::ui {

struct LiveRun {
  const report::Summary& summary;
  const report::History& history;
  const report::TimeLedger& ledger;   // of the whole run, with what the job's clock did not see
  const report::TimeLedger& of_late;  // LedgerWindow's
  const Recent& recent;
  const MovingLanes& lanes;
  const StateOfRun& state;
  Time now;
  const Traffic& traffic;
  std::string trouble{};  // a line: why the page may be behind
};

inline constexpr std::size_t kCurvePoints = 300;
inline constexpr std::size_t kDeviceRows = 200;
inline constexpr std::size_t kLedgerRows = 64;
inline constexpr std::size_t kEventRows = 100;
inline constexpr std::size_t kProcessRows = 64;  // of links, memory and servers each

report::Json head_json(const LiveRun& run);
report::Json curves_json(const LiveRun& run);
report::Json lanes_json(const LiveRun& run);
report::Json devices_json(const LiveRun& run);
report::Json groups_json(const LiveRun& run);
report::Json events_json(const LiveRun& run);
report::Json plan_json(const LiveRun& run);
report::Json time_json(const LiveRun& run);
report::Json links_json(const LiveRun& run);
report::Json memory_json(const LiveRun& run);
report::Json servers_json(const LiveRun& run);

}  // namespace paceline::ui
