#include "paceline/tools/cli/top_command.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/ui/runs_index.h"
#include "paceline/tools/ui/top_screen.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kRefresh{1000};
constexpr int kWidth = 80, kHeight = 24;

absl::StatusOr<store::RunPaths> run_of(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path folder, store::absolute_path(name));
  std::error_code error;
  const store::RunPaths named{folder.lexically_normal()};
  if (std::filesystem::is_regular_file(named.job(), error)) return named;
  ui::RunsIndex runs({folder.lexically_normal()});
  runs.look();
  const std::string newest = runs.newest();
  if (newest.empty())
    return absl::NotFoundError(fmt::format("{}: there is no run here; name a run's folder", name));
  return runs.find(newest)->paths();
}

}  // namespace

void show_run(ui::RunFollower& run, const std::string& name, FullScreen& screen, std::int64_t piece) {
  do {
    run.read(piece);
    const auto [width, height] = screen.size();
    screen.show(ui::top_screen(run.parts(), name, width, height));
  } while (launch::stop_signals() == 0 &&
           !screen.left(run.is_behind() ? std::chrono::milliseconds(0) : kRefresh));
}

absl::StatusOr<int> top_command(const TopOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths run, run_of(options.run));
  ui::RunFollower follower(run);
  const std::string name = run.root.filename().string();
  if (options.once || isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0) {
    do follower.read();
    while (follower.is_behind());
    for (const std::string& line : ui::top_screen(follower.parts(), name, kWidth, kHeight))
      launch::print(stdout, line + "\n");
    return 0;
  }
  launch::catch_stop_signals();
  PACELINE_ASSIGN_OR_RETURN(const auto screen, FullScreen::open());
  show_run(follower, name, *screen);
  return 0;
}

}  // namespace paceline::cli
