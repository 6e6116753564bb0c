// A run in Prometheus' text format, as a page to scrape or a file for node_exporter's textfile collector.
// Names and units follow Prometheus' rules: base units, counters end in _total, and no counter ever falls
// while a run goes on. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/report/history.h"
#include "paceline/report/summary.h"
#include "paceline/report/time_ledger.h"

namespace paceline::exports {

// Labels name so many devices; the others are one, "others".
inline constexpr std::size_t kLabelledDevices = 1000;

// What the statistics of a whole run do not have.
struct LiveNumbers {
  std::optional<double> learning_rate{};
  std::int64_t updates = 0;                    // that the servers have said are complete
  double updates_s = 0;                        // that these took, together
  std::map<std::string, std::int64_t> left{};  // replicas that left, by a bounded number of reasons
  // How fast devices are now against their own past, for the first kLabelledDevices.
  std::vector<std::pair<std::string, double>> speeds{};
};

// `settled`: of TimeStats::settled(). `made_s`: when the job's time began, in seconds since 1970; without it
// nothing is said of when the last commit was.
//   paceline_run_info{job, policy, world}            1
//   paceline_run_finished                            0 or 1
//   paceline_planned_samples                         of all epochs
//   paceline_committed_samples_total, _iterations_total, _commits_total
//   paceline_run_seconds                             of the job's time, since its first release
//   paceline_live_replicas, paceline_clock_gap       now
//   paceline_training_loss, paceline_evaluation_loss, paceline_evaluation_accuracy_ratio
//   paceline_last_commit_timestamp_seconds
//   paceline_device_seconds_total{device, cause}     as report::TimeCause has them
//   paceline_waited_for_seconds_total{device}        that all others waited for this one
//   paceline_staleness_commits, paceline_group_gradients    histograms
//   paceline_attempts_total, paceline_lost_commits_total     how often it was begun or gone on with
//   paceline_learning_rate, paceline_update_seconds (a summary), paceline_left_replicas_total{reason}
//   paceline_device_speed_ratio{device}              now, against its own past
std::string prometheus_text(const report::Summary& summary, const report::History& history,
                            const report::TimeLedger& settled, std::optional<double> made_s,
                            const LiveNumbers& more = {});

}  // namespace paceline::exports
