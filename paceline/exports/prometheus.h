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
  struct Updates {
    std::int32_t server = 0;
    std::int64_t count = 0;
    double seconds = 0;  // that these took, together
  };
  std::vector<Updates> updates{};              // by server
  std::map<std::string, std::int64_t> left{};  // replicas that left, by a bounded number of reasons
  // How fast devices are now against their own past, for the first kLabelledDevices.
  std::vector<std::pair<std::string, double>> speeds{};
  struct Link {
    std::string from, to, kind;
    std::int64_t bytes = 0;
  };
  std::vector<Link> links{};                                   // the busiest first
  std::vector<std::pair<std::string, std::int64_t>> memory{};  // by process, the largest first
};

// What each series said at most, so that counters do not fall when a run goes back to a checkpoint: what is
// done again is counted once it is more than it was. Memory is bounded by the number of series.
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

// `settled`: of TimeStats::settled(). `committed_s`: when the newest commit was, in seconds since 1970, where
// that is known.
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
//   paceline_learning_rate, paceline_left_replicas_total{reason}
//   paceline_update_seconds{server}                  a summary: what making a version took
//   paceline_device_speed_ratio{device}              now, against its own past
//   paceline_restarts_total{reason}                  attempts after the first
//   paceline_link_sent_bytes_total{from, to, kind}   between hosts; of 1,000 pairs, the others are "others"
//   paceline_process_resident_memory_bytes{process}  the same
// `highest`: of the pages of this run before, if there were some.
std::string prometheus_text(const report::Summary& summary, const report::History& history,
                            const report::TimeLedger& settled, std::optional<double> committed_s,
                            const LiveNumbers& more = {}, Highest* highest = nullptr);

}  // namespace paceline::exports
