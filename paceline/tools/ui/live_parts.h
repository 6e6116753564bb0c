// The parts of a page about a run, as JSON of bounded size: pure functions of the run's folds. Unknown is
// null, times are seconds of the job's clock.
//
//   head     {title, policy, world, state, why, trouble, holds_back (now), held_back (over the whole run),
//            at_s, elapsed_s, samples, total_samples, samples_per_s (of late), left_s, iterations, commits,
//            wait_share, wait_of_late, gap, staleness_mean, staleness_max, group_size, training_loss, loss,
//            accuracy, best_accuracy, live, replicas, attempts, lost_commits, update_s, learning_rate,
//            target}: replicas counts names, so a replica that came again counts once
//   curves   {evaluations: [[time_s, samples, version, loss, accuracy]],
//            training: [[time_s, samples, version, loss]],
//            rate: [[time_s, samples, version, samples_per_s]], target}
//   lanes    MovingLanes::json
//   devices  {rows: [{name, doing, why, iterations, samples, speed, past, waited_for_s, wait_share,
//            discarded}], left_out, middle}: those that are here come first, and of these those that the others waited
//            for most
//   groups   {staleness: {bin_width, counts}, sizes: [{from, to, commits}], causes: [text],
//            latest: [[time_s, version, size, who, why]]}: sizes and causes as in report_json
//   events   {list: [[time_s, replica, text]], left_out}: the newest first
//   plan     null or {words, re_plans, predicted_ms, measured_ms, plans: [[from_s, words, why]]}
//   time     {wall_s, off_by_s, causes: [text], devices: [[name, seconds by cause…]], left_out,
//            waits: [[on, rule, s]]}
//   links    {rows: [[from, to, kind, bytes, bytes_per_s (of late)]], left_out}: the busiest first; in runs
//            over several hosts
//   memory   {rows: [[process, resident_bytes]], left_out}: the largest first
//   servers  {rows: [[server, commits, seconds of a commit of late, GB/s of weights made of late]],
//            left_out}: the slowest first
#pragma once

#include <string>

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/time_ledger.h"
#include "paceline/tools/ui/moving_lanes.h"
#include "paceline/tools/ui/recent.h"
#include "paceline/tools/ui/run_state.h"
#include "paceline/tools/ui/traffic.h"

namespace paceline::ui {

struct LiveRun {
  const report::Summary& summary;
  const report::History& history;
  const report::TimeLedger& ledger;   // the whole run's, including the time that the job's clock did not see
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
inline constexpr std::size_t kProcessRows = 64;  // the most rows of links, of memory and of servers

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
