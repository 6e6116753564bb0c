// `paceline ui` beside a run, as a child of the process that a person started: `train --ui`, and [monitor] of
// a job. It ends with that process, however that ends.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/launch/child_process.h"

namespace paceline::cli {

// Where pages are: at loopback's port 7462, or where somebody has that, at any free one. Errors: Unavailable.
absl::StatusOr<ListeningSocket> listen_as_usual();

class UiChild {
 public:
  // With pages, and a token that goes to standard error with the address; or with metrics alone, at `listen`.
  // Listens at once, so that what is wrong is said before anything is made. Errors: it cannot.
  static absl::StatusOr<UiChild> with_pages();
  static absl::StatusOr<UiChild> with_metrics(const std::string& listen);

  // `folder`: a run, or a folder of runs; its log lies in `log_folder`. `page`: what the printed address
  // leads to, behind its "#". Errors: there is no such process.
  absl::Status start(const std::string& folder, const std::string& log_folder, const std::string& page);

 private:
  UiChild(ListeningSocket listening, std::string token)
      : listening_(std::move(listening)), token_(std::move(token)) {}

  std::optional<ListeningSocket> listening_;
  std::string token_;  // empty: metrics alone
  std::optional<launch::ChildProcess> process_;
};

}  // namespace paceline::cli
