// Asks a job's program what it trains and which settings it wants, before anything is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/computing/program/measured_model.h"
#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/tools/cli/pass_times.h"

namespace paceline::cli {

// The program's answer about itself. It is started once for that, unless it has answered before
// (program/said_before.h). If it fails, its output is shown. Requires: the job has a program. Errors: why it
// does not start, in one line.
enum class AskMemory { kNo, kYes };  // kYes: the free memory of cards, also if no plan needs it
absl::StatusOr<program::Model> probe_program(const config::JobConfig& job, const std::string& said,
                                             AskMemory memory = AskMemory::kNo);

// The program's model, with measurements of it (program/measured_model.h) by micro-batches of up to `micro_batch`
// samples. Errors: those of probe_program(); InvalidArgument if the model cannot be cut, or if the program measures
// nothing.
struct ProbedProfile {
  program::Model model;
  program::MeasuredModel measured;
  std::optional<PassTimes> passes;  // none if they cannot be measured
};
// While it measures, `beside` other processes compute the same model, if that is on the CPU.
absl::StatusOr<ProbedProfile> profile_program(const config::JobConfig& job, std::int64_t micro_batch,
                                              int beside);

}  // namespace paceline::cli
