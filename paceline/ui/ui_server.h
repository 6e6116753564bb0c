// `paceline ui`: the pages of some runs, their events and their metrics, over HTTP. Reads run folders only;
// the one thing that it can do to a run is to ask for its stop, for those who show the token of its job.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/store/run_folder.h"

namespace paceline::ui {

// Asks the leader of the run for a clean stop. Errors: one line for people.
using StopRun = std::function<absl::Status(const store::RunPaths& run, const std::string& job_token)>;

struct UiOptions {
  std::vector<std::filesystem::path> roots;  // run folders, or folders of these
  std::string token;                         // empty: no pages, only open metrics
  bool open_metrics = false;                 // /metrics and /healthz for all who reach the port
  bool any_host = false;                     // whatever name the server is called by
  StopRun stop_run{};                        // missing: runs cannot be stopped from a page
};

class UiServer {
 public:
  static absl::StatusOr<std::unique_ptr<UiServer>> open(ListeningSocket listening, UiOptions options);
  virtual ~UiServer() = default;

  // Until stop(), which any thread may call.
  virtual void run() = 0;
  virtual void stop() = 0;
};

}  // namespace paceline::ui
