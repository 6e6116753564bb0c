// `paceline ui`: runs in a browser.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct UiCommandOptions {
  std::vector<std::string> roots{};
  std::string listen{};       // empty: the usual port, or any
  bool metrics_only = false;  // no pages, and no token
  // Given by a launcher: a socket that listens, and a descriptor from which to read the token, which must
  // stay secret.
  int listen_fd = -1;
  int token_fd = -1;
};

// Runs until Ctrl-C. Returns the exit status.
absl::StatusOr<int> ui_command(const UiCommandOptions& options);

}  // namespace paceline::cli
