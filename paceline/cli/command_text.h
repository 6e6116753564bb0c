// What of a command line people see: its commands, and of each the options and the words without a name. For
// man pages and completions, which are written from this, and so never say anything else than the program.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace paceline::cli {

struct OptionText {
  std::vector<std::string>
      names;  // with their dashes: "-h", "--help"; of a word without a name, that it has here
  std::string about;
  std::string value;                 // what is written behind it, "TEXT"; empty: nothing
  std::vector<std::string> choices;  // where `value` is one of these, "bsp|asp"
  bool required = false;
  bool repeated = false;  // may be written any number of times
};

struct CommandText {
  std::string name;  // "train"; of the program, "paceline"
  std::string about;
  std::string more;  // a paragraph, or nothing
  std::vector<OptionText> options;
  std::vector<OptionText> positionals;
};

struct ProgramText {
  CommandText program;
  std::vector<CommandText> commands;
};

ProgramText words_of(const CLI::App& app);

// The page of the program itself where `command` is its own name. troff; without a date, so that it is the
// same whenever it is made.
std::string man_page(const ProgramText& words, const std::string& command, const std::string& version);

// Requires: "bash", "zsh" or "fish".
std::string completions(const ProgramText& words, const std::string& shell);

}  // namespace paceline::cli
