// The two programs: `paceline` starts at once and knows all commands; `paceline-torch`, which lies beside it,
// has the built-in models too, and takes 0.4 s and 150 MB to load libtorch.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/launch/fork_server.h"

namespace paceline::cli {

// Where this program has no built-in models, it becomes the one that has, with the same command line. To be
// called before anything was done. Errors: that one does not lie beside this one.
absl::Status need_built_in_models();

// What a program without the built-in models wants to know of them, and has the other one find out: a process
// that ends once it has answered.
enum class TorchQuestion {
  kSizes,  // a job's samples, model and note, as read_data_and_model() has them
  kHost,   // what computes here, and the job's data or why it cannot be read; a line each
};
std::string_view to_string(TorchQuestion question);
// Of a job, as resolved. Errors: what that process says, in one line; it does not lie beside this one.
absl::StatusOr<std::string> ask_torch_program(TorchQuestion question, const std::string& job_toml);

// The same from a fork server, which is there for the job's processes then: libtorch is loaded once, and the
// data read once.
struct ForkedAnswer {
  std::string answer;
  std::shared_ptr<launch::ForkServer> server;  // null where none could be had
};
absl::StatusOr<ForkedAnswer> ask_fork_server(TorchQuestion question, const std::string& job_toml);

}  // namespace paceline::cli
