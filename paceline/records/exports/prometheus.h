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

#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/time_ledger.h"

namespace paceline::exports {

// The first this many devices have a label of their own; the rest share the label "others".
inline constexpr std::size_t kLabelledDevices = 1000;

// Numbers that the statistics of a whole run do not have.
struct LiveNumbers {
  std::optional<double> learning_rate{};
  struct Updates {
    std::int32_t server = 0;
    std::int64_t count = 0;
    double seconds = 0;  // the time of all these updates together
  };
  std::vector<Updates> updates{};              // each with its server's number
  std::map<std::string, std::int64_t> left{};  // replicas that left, by a bounded number of reasons
  // How fast devices are now against their own past, for the first kLabelledDevices.
  std::vector<std::pair<std::string, double>> speeds{};
  struct Link {
    std::string from, to, kind;
    std::int64_t bytes = 0;
  };
  std::vector<Link> links{};  // the busiest first
  // each with its process's name, the largest first
  std::vector<std::pair<std::string, std::int64_t>> memory{};
};

// The largest value that each series ever had. A run that goes back to a checkpoint counts its repeated
// commits only when they exceed this, so no counter falls. Memory is bounded by the number of series.
class Highest {
 public:
  double of(const std::string& series, double value) {
    const auto [found, fresh] = values_.try_emplace(series, value);
    if (!fresh && value > found->second) found->second = value;
    return found->second;
  }

 private:
  std::map<std::string, double> values_;
};

// `settled`: TimeStats::settled(). `committed_s`: the time of the newest commit in seconds since 1970, if it
// is known. `highest`: the values of this run's earlier pages; null: there were none.
//   paceline_run_info{job, policy, world}            1
//   paceline_run_finished                            0 or 1
//   paceline_planned_samples                         of all epochs
//   paceline_committed_samples_total, _iterations_total, _commits_total
//   paceline_run_seconds                             the job's time since its first release
//   paceline_live_replicas, paceline_clock_gap       now
//   paceline_training_loss, paceline_evaluation_loss, paceline_evaluation_accuracy_ratio
//   paceline_last_commit_timestamp_seconds
//   paceline_device_seconds_total{device, cause}     causes: those of report::TimeCause
//   paceline_waited_for_seconds_total{device}        how long all others waited for this device
//   paceline_staleness_commits, paceline_group_gradients    histograms
//   paceline_attempts_total, paceline_lost_commits_total     attempts, and commits that a restart lost
//   paceline_learning_rate, paceline_left_replicas_total{reason}
//   paceline_update_seconds{server}                  a summary: the time to make a version
//   paceline_device_speed_ratio{device}              the speed now, against the device's own past
//   paceline_restarts_total{reason}                  attempts after the first
//   paceline_link_sent_bytes_total{from, to, kind}   between hosts: 1,000 pairs; the rest are "others"
//   paceline_process_resident_memory_bytes{process}  likewise
std::string prometheus_text(const report::Summary& summary, const report::History& history,
                            const report::TimeLedger& settled, std::optional<double> committed_s,
                            const LiveNumbers& more = {}, Highest* highest = nullptr);

}  // namespace paceline::exports
