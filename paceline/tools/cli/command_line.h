// The command line of both programs: every subcommand, each in a file of its own.
#pragma once

#include <string>
#include <vector>

#include "paceline/tools/cli/program.h"

namespace paceline::cli {

// All subcommands. The one that is called puts itself into `command`. `own`: the words after --.
void add_commands(CLI::App& app, Command& command, const std::vector<std::string>& own);

// The exit status.
int run_paceline(int argc, char** argv);

}  // namespace paceline::cli
