// The result of one training of a sweep: a line of results.jsonl. Plain values; a std::optional is empty if
// there is no value (no evaluation, the target was not met, a loss that is no number, the end of a training that
// diverged).
//
// Invariant: reading what was written gives the same values; except for wall_s they are the same for the same
// job.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

struct SweepResult {
  double virtual_s = 0;
  std::optional<double> to_target_s;  // virtual seconds at the first evaluation that met it
  std::optional<double> accuracy;     // the last evaluation's
  std::optional<double> best_accuracy;
  std::optional<double> loss;
  std::optional<double> best_loss;
  std::int64_t samples = 0;
  std::int64_t commits = 0;
  std::optional<double> staleness_mean;
  std::int64_t staleness_max = 0;
  double wall_s = 0;
  bool diverged = false;  // the training ended because its weights were no finite numbers
};

SweepResult sweep_result(const Summary& summary, double wall_s);

Json to_json(const SweepResult& result);
// Nothing if a key is missing or its value has another type, except for `diverged`, which older lines do not have.
// Other keys are ignored.
std::optional<SweepResult> sweep_result_from(const Json& json);

}  // namespace paceline::report
