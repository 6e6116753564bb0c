// `paceline profile`: the parts of a program's model, as this machine computes them.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/profile.h"
#include "paceline/tools/cli/program_probe.h"
#include "paceline/tools/cli/run_command.h"

namespace paceline::cli {

inline constexpr std::int64_t kUsualMicroBatch = 32;

struct ProfileOptions {
  RunOptions program;            // its command; the rest of it does not matter
  std::int64_t micro_batch = 0;  // the largest that is measured; 0: kUsualMicroBatch
  int processes = 1;             // the number of processes that compute the model at the same time
  int threads = 1;               // PyTorch's, on the CPU
  std::string output;            // a file for the layers, or "-": standard output; empty: none
};

// A program's model, measured: the program's answer, and the layers for a plan.
struct MeasuredProgram {
  ProbedProfile probed;
  planner::ModelProfile profile;
};
absl::StatusOr<MeasuredProgram> measure_program(const ProfileOptions& options);

absl::Status profile_command(const ProfileOptions& options);

}  // namespace paceline::cli
