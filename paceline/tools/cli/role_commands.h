// One role of a job as a process of its own: the subcommands that need no libtorch.
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/processes/peer/peer.h"
#include "paceline/tools/cli/program.h"

namespace paceline::cli {

void add_coordinator(CLI::App& app, Command& command);
void add_server(CLI::App& app, Command& command);

// How a role of a job reaches the coordinator.
void add_reach(CLI::App& role, peer::PeerOptions& options);

}  // namespace paceline::cli
