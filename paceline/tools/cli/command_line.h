// The command line of both programs: every subcommand, each in a file of its own.
#pragma once

#include <string>
#include <vector>

#include "paceline/tools/cli/program.h"

namespace paceline::cli {

// The words of a command line.
struct CommandWords {
  std::vector<std::string> before;  // the words before --
  std::vector<std::string> own;     // the words behind it: the program's, even if they look like Paceline's
};

// All subcommands. The one that is called puts itself into `command`.
void add_commands(CLI::App& app, Command& command, const CommandWords& words);

// The exit status.
int run_paceline(int argc, char** argv);

}  // namespace paceline::cli
