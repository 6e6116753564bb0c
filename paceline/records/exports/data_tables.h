// The contents of a report as plain tables for other tools: CSV (RFC 4180) and JSON lines. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/records/pages/json_values.h"

namespace paceline::exports {

struct DataTable {
  std::string name;  // the name of its file, without an extension
  std::vector<std::string> columns;
  std::vector<std::vector<report::Json>> rows;  // null: not known
};

// Reads `document`, which report::report_json made, with the "time" of report::time_json. The last four
// tables are made only if the document has their data.
//   summary      key, value
//   evaluations  time_s, samples, loss, accuracy, and a column for each of the user's metrics
//   training     time_s, samples, loss, and the same columns
//   throughput   time_s, samples_per_s
//   staleness    from, to, gradients
//   groups       from, to (gradients of a commit), cause, commits
//   replicas     replica, doing, why, iterations, discarded, samples, mean_compute_s, wait_share,
//                mean_staleness
//   gaps         replica, time_s, gap
//   spans        replica, start_s, end_s, doing, iteration, why: the first and the latest of a long run
//   time         device, and a column for each cause in seconds
//   waits        device, on, rule, s
//   events       time_s, replica, text
//   speeds       replica, samples_per_s (of its latest iterations), past_samples_per_s (before these), ratio
//   servers      server, commits, mean_ms, update_ms, gradient_ms: the time that commits took it
//   links        from, to, kind, bytes: sent between hosts
//   memory       process, resident_bytes
//   batches      of a planned run: time_s, batches, predicted_ms, measured_ms, elapsed_ms
std::vector<DataTable> data_tables(const report::Json& document);

std::string to_csv(const DataTable& table);
std::string to_json_lines(const DataTable& table);

}  // namespace paceline::exports
