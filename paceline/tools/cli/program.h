// The common part of our programs: reading the command line, and the exit status, which is 0, or 2 with one
// line on standard error that says what is wrong and what to do, or 128 + n after signal n, or 75 after a
// signal to the command of another host.
#pragma once

#include <functional>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace CLI {
class App;  // its header takes longer to read than most files of this folder
}

namespace paceline::cli {

// Another command has stopped the run before its job was done: the same command may go on with it later
// (EX_TEMPFAIL of sysexits.h).
inline constexpr int kExitOfOthersStop = 75;

// Runs a subcommand, once the command line is read; returns its exit status.
using Command = std::function<absl::StatusOr<int>()>;

absl::StatusOr<int> exit_of(const absl::Status& status);

// `app` has the subcommands. The called one puts itself into `command`.
int run_program(CLI::App& app, const Command& command, int argc, char** argv);

}  // namespace paceline::cli
