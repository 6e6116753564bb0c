// The files that `paceline export` writes about a run besides its weights, for other tools.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// Writes a Chrome trace; the journal streams through. Errors: those of open_run; the file cannot be written.
absl::Status export_trace(const std::string& run, const std::string& file);

// Writes the numbers of the report, each table as CSV and as JSON lines, into `folder`, which is made.
absl::Status export_tables(const std::string& run, const std::string& folder);

// Writes an event file into `folder`/<name of the run's folder>, so that several runs lie side by side.
absl::Status export_tensorboard(const std::string& run, const std::string& folder);

// The same while the run trains, until it has ended. If the run goes back or is resumed, another file begins, and the
// earlier ones become empty once it has all that is recorded; TensorBoard then reads that one without a restart.
absl::Status follow_tensorboard(const std::string& run, const std::string& folder);

// Writes a page of metrics for node_exporter's textfile collector.
absl::Status export_prometheus(const std::string& run, const std::string& file);

}  // namespace paceline::cli
