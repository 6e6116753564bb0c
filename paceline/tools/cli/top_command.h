// `paceline top`: a run on the whole screen of a terminal.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/tools/cli/full_screen.h"
#include "paceline/tools/ui/run_follower.h"

namespace paceline::cli {

struct TopOptions {
  std::string run;    // its folder, or a folder of runs: then the newest
  bool once = false;  // print it, and end
};

// Shows the run until the user leaves. A long run is read in pieces, of at most `piece` events, so that the user can leave
// meanwhile.
void show_run(ui::RunFollower& run, const std::string& name, FullScreen& screen,
              std::int64_t piece = ui::RunFollower::kPiece);

// Runs until q or Ctrl-C. Returns the exit status.
absl::StatusOr<int> top_command(const TopOptions& options);

}  // namespace paceline::cli
