// The command line of both programs: every subcommand, each in a file of its own.
#pragma once

namespace paceline::cli {

// The exit status.
int run_paceline(int argc, char** argv);

}  // namespace paceline::cli
