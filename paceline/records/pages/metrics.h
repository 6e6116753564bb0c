// The lines of a run's metrics.jsonl, and of `--json` on a terminal: one JSON object a line, for machines.
// Keys are only ever added. An unknown value is null. Pure functions; no newline at the end.
//
// A snapshot of the whole run, taken every now and then:
//   kind "snapshot"; time_s; samples (committed); total_samples; samples_per_s; iterations; commits;
//   wait_share (0..1); gap (now); gap_max; staleness_mean; staleness_max; commits_per_epoch;
//   group_size_mean (gradients a commit); group_size_of_late (of the latest 20 commits or so); training_loss;
//   replicas_live; plan (null, or {words, re_plans, batch_ms, predicted_ms}, times of the latest batches);
//   finished
// An evaluation of one version on the test set:
//   kind "evaluation"; time_s (when that version was committed); version; samples; loss (nats); accuracy
//   (0..1)
#pragma once

#include <string>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

std::string metrics_line(const Summary& summary);
std::string metrics_line(const control::Evaluated& evaluated);

}  // namespace paceline::report
