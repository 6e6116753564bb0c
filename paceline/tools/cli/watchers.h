// The processes that look at a run from outside while it trains, as children of the process that leads it:
// its pages (--ui), its metrics ([monitor]) and its event files ([export]). Each reads only the run's folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/child_process.h"
#include "paceline/tools/cli/ui_child.h"

namespace paceline::cli {

class Watchers {
 public:
  // Pages and metrics listen from here on, so that errors of an address show before anything is made. Errors:
  // an address cannot be had.
  static absl::StatusOr<Watchers> open(const config::JobConfig& job, bool with_pages);

  // `run`: its folder. Errors: a process cannot be started.
  absl::Status start(const std::string& run);
  // The run has ended. Returns when its end is in the event files, or after five seconds.
  void finish();

 private:
  bool to_tensorboard_ = false;
  std::vector<UiChild> servers_;
  std::optional<launch::ChildProcess> exporter_;
};

}  // namespace paceline::cli
