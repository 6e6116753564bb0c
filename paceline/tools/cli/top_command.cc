#include "paceline/tools/cli/top_command.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/full_screen.h"
#include "paceline/tools/ui/run_follower.h"
#include "paceline/tools/ui/runs_index.h"
#include "paceline/tools/ui/top_screen.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kRefresh{1000};
constexpr int kWidth = 80, kHeight = 24;

absl::StatusOr<store::RunPaths> run_of(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path folder, store::absolute_path(name));
  ui::RunsIndex runs({folder.lexically_normal()});
  runs.look();
  const std::string newest = runs.newest();
  if (newest.empty())
    return absl::NotFoundError(fmt::format("{}: there is no run here; name a run's folder", name));
  return runs.find(newest)->paths();
}

}  // namespace

absl::StatusOr<int> top_command(const TopOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths run, run_of(options.run));
  ui::RunFollower follower(run);
  const std::string name = run.root.filename().string();
  if (options.once || isatty(STDOUT_FILENO) == 0) {
    follower.read();
    for (const std::string& line : ui::top_screen(follower.parts(), name, kWidth, kHeight))
      launch::print(stdout, line + "\n");
    return 0;
  }
  launch::catch_stop_signals();
  PACELINE_ASSIGN_OR_RETURN(const auto screen, FullScreen::open());
  do {
    follower.read();
    const auto [width, height] = screen->size();
    screen->show(ui::top_screen(follower.parts(), name, width, height));
  } while (launch::stop_signals() == 0 && !screen->left(kRefresh));
  return 0;
}

}  // namespace paceline::cli
