// What `paceline export` writes of a run beside its weights: files that other tools read.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// A Chrome trace; the journal streams through. Errors: those of open_run; the file cannot be written.
absl::Status export_trace(const std::string& run, const std::string& file);

// The numbers of the report, each table as CSV and as JSON lines in `folder`, which is made.
absl::Status export_tables(const std::string& run, const std::string& folder);

// An event file in `folder`/<name of the run's folder>, so that several runs lie side by side.
absl::Status export_tensorboard(const std::string& run, const std::string& folder);

// The same while the run trains, until it has ended. Where the run goes back or is resumed, another file
// begins, which TensorBoard reads instead of the one before without being started again.
absl::Status follow_tensorboard(const std::string& run, const std::string& folder);

// A page of metrics for node_exporter's textfile collector.
absl::Status export_prometheus(const std::string& run, const std::string& file);

}  // namespace paceline::cli
