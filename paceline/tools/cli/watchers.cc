#include "paceline/tools/cli/watchers.h"

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::cli {

absl::StatusOr<Watchers> Watchers::open(const config::JobConfig& job, bool with_pages) {
  Watchers watchers;
  watchers.to_tensorboard_ = job.to_tensorboard;
  if (with_pages) {
    PACELINE_ASSIGN_OR_RETURN(UiChild pages, UiChild::with_pages());
    watchers.servers_.push_back(std::move(pages));
  }
  if (!job.monitor.empty()) {
    PACELINE_ASSIGN_OR_RETURN(UiChild metrics, UiChild::with_metrics(job.monitor));
    watchers.servers_.push_back(std::move(metrics));
  }
  return watchers;
}

absl::Status Watchers::start(const std::string& run) {
  if (servers_.empty() && !to_tensorboard_) return absl::OkStatus();
  const store::RunPaths paths{run};
  std::error_code ignored;
  std::filesystem::create_directories(paths.logs(), ignored);
  for (UiChild& server : servers_)
    PACELINE_RETURN_IF_ERROR(
        server.start(run, paths.logs().string(), "#/run/" + paths.root.filename().string()));
  if (!to_tensorboard_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(
      exporter_,
      launch::ChildProcess::start(launch::ChildProgram::kWithoutTorch, "export",
                                  {"export", run, "--tensorboard", paths.tensorboard().string(), "--follow"},
                                  (paths.logs() / "export.log").string()));
  return absl::OkStatus();
}

void Watchers::finish() {
  constexpr int kLooks = 50;
  for (int i = 0; exporter_ && i < kLooks && !exporter_->ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace paceline::cli
