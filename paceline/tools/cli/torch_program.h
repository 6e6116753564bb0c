// The two programs: `paceline` starts at once and knows all commands; `paceline-torch`, which lies beside it,
// has the built-in models too, and takes 0.4 s and 150 MB to load libtorch.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/processes/launch/fork_server.h"

namespace paceline::cli {

// If this program has no built-in models, it becomes the one that has, with the same command line. Call this
// before anything was done. Errors: the other program does not lie beside this one.
absl::Status need_built_in_models();

// The questions about built-in models that a program without them asks the other one: a process that ends
// once it has answered.
enum class TorchQuestion {
  kSizes,  // a job's samples, model and note, from read_data_and_model()
  kHost,   // libtorch's description, and the job's data or why it cannot be read; a line each
};
std::string_view to_string(TorchQuestion question);
// Asks about a job, given its resolved text. Errors: the other process's line; it does not lie beside this
// one.
absl::StatusOr<std::string> ask_torch_program(TorchQuestion question, const std::string& job_toml);

// The same through a fork server, which is then ready for the job's processes: libtorch is loaded once, and
// the data read once.
struct ForkedAnswer {
  std::string answer;
  std::shared_ptr<launch::ForkServer> server;  // null if none could be started
};
absl::StatusOr<ForkedAnswer> ask_fork_server(TorchQuestion question, const std::string& job_toml);

}  // namespace paceline::cli
