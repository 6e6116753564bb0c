// `paceline ui`: runs in a browser.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct UiCommandOptions {
  std::vector<std::string> roots{};
  std::string listen{};       // empty: the usual port, or any
  bool metrics_only = false;  // without a token
  // Of a launcher: a socket that listens, and where to read the token from, which nobody else is to see.
  int listen_fd = -1;
  int token_fd = -1;
};

// Until Ctrl-C; the exit status.
absl::StatusOr<int> ui_command(const UiCommandOptions& options);

}  // namespace paceline::cli
