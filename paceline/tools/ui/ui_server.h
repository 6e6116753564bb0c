// `paceline ui`: the pages of some runs, their events and their metrics, over HTTP. Reads run folders only.
// The only things that it can do to a run are to ask for its stop or for an evaluation, for people who show
// the token of the run's job.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::ui {

// Asks the leader of the run for something; returns in words what happens now. Errors: one line for people.
using AskRun =
    std::function<absl::StatusOr<std::string>(const store::RunPaths& run, const std::string& job_token)>;

struct UiOptions {
  std::vector<std::filesystem::path> roots;  // run folders, or folders of these
  std::string token;                         // empty: no pages, only open metrics
  bool open_metrics = false;                 // /metrics and /healthz are for everybody who reaches the port
  bool any_host = false;                     // browsers may call the server by any name
  AskRun stop_run{}, evaluate_run{};         // missing: not available on a page
};

class UiServer {
 public:
  static absl::StatusOr<std::unique_ptr<UiServer>> open(ListeningSocket listening, UiOptions options);
  virtual ~UiServer() = default;

  // Serves until stop(), which any thread may call.
  virtual void run() = 0;
  virtual void stop() = 0;
};

}  // namespace paceline::ui
