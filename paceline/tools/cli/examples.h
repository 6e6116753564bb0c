// Examples of each command, below its --help and in its man page.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace paceline::cli {

// Whole command lines. Requires: a subcommand of `paceline`.
std::vector<std::string> examples_of(const std::string& command);

// Puts the examples below the command's options and its other notes.
void add_examples(CLI::App& command);

}  // namespace paceline::cli
