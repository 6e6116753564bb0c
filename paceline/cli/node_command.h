// `paceline node`: this host's part of a job that runs on several hosts, one command a host. The first host
// runs the coordinator and the evaluator, and writes the run folder; every host a server and its workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/cli/placement.h"
#include "paceline/cli/train_command.h"

namespace paceline::cli {

struct NodeOptions {
  TrainOptions train;
  std::string address{};  // of this host, for the others; empty: of the interface that reaches the first one
  // Instead of what the environment says.
  std::optional<std::int64_t> rank{};
  std::optional<std::int64_t> hosts{};
  std::string coordinator{};  // HOST:PORT
};

// The exit status, once this host's part is over.
absl::StatusOr<int> node_command(const NodeOptions& options, const Environment& environment);

}  // namespace paceline::cli
