// `paceline-torch models`: answers questions of `paceline` about the built-in models. For programs only.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

struct ModelsOptions {
  std::string question;  // a name of TorchQuestion
  std::string job_file, answer_file;
};

absl::Status models_command(const ModelsOptions& options);

// The sizes in a process's answer to TorchQuestion::kSizes.
absl::StatusOr<JobSizes> sizes_in(const std::string& answer);

// An answer to TorchQuestion::kHost.
struct HostAnswer {
  std::string libtorch;
  absl::StatusOr<std::string> data = "";
};
HostAnswer host_answer_in(const std::string& answer);

}  // namespace paceline::cli
