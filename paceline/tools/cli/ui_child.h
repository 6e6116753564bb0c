// `paceline ui` beside a run, as a child of the process that a person started: `train --ui`, and [monitor] of
// a job. It ends with that process, however that ends.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/processes/launch/child_process.h"

namespace paceline::cli {

// Listens for pages: on loopback's port 7462, or, if that is taken, on any free one. Errors: Unavailable.
absl::StatusOr<ListeningSocket> listen_as_usual();

class UiChild {
 public:
  // with_pages() has pages, and a token that goes to standard error with the address; with_metrics() has only
  // metrics, at `listen`. Both listen at once, so that errors show before anything is made. Errors: the
  // address cannot be had.
  static absl::StatusOr<UiChild> with_pages();
  static absl::StatusOr<UiChild> with_metrics(const std::string& listen);

  // `folder`: a run, or a folder of runs; the log goes to `log_folder`. `page`: the part behind "#" in the
  // printed address. Errors: the process cannot be started.
  absl::Status start(const std::string& folder, const std::string& log_folder, const std::string& page);

 private:
  UiChild(ListeningSocket listening, std::string token)
      : listening_(std::move(listening)), token_(std::move(token)) {}

  std::optional<ListeningSocket> listening_;
  std::string token_;  // empty: only metrics
  std::optional<launch::ChildProcess> process_;
};

}  // namespace paceline::cli
