// `paceline-light`: the roles that compute nothing, without libtorch, which a process takes 0.4 s and 150 MB
// to load. `paceline`, which knows them too, starts them here where this lies beside it.
#include <CLI/CLI.hpp>

#include "paceline/cli/program.h"
#include "paceline/cli/role_commands.h"

int main(int argc, char** argv) {
  CLI::App app("The roles of a job that need no libtorch, for paceline to start.", "paceline-light");
  paceline::cli::Command command;
  paceline::cli::add_coordinator(app, command);
  paceline::cli::add_server(app, command);
  return paceline::cli::run_program(app, command, argc, argv);
}
