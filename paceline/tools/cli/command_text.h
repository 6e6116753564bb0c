// The text of a command line: its commands, and the options and positional words of each. Man pages and
// completions are written from this, so they always agree with the program.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace paceline::cli {

struct OptionText {
  // With their dashes: "-h", "--help"; for a positional word, its name in help texts.
  std::vector<std::string> names;
  std::string about;
  std::string value;                 // placeholder of its value, "TEXT"; empty: it takes none
  std::vector<std::string> choices;  // the allowed values, if `value` is one of a list, "bsp|asp"
  bool required = false;
  bool repeated = false;  // may be written any number of times
};

struct CommandText {
  std::string name;  // "train"; "paceline" for the program
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

// The page of `command`; of the program itself if that is its name. In troff; without a date, so that it is
// the same whenever it is made.
std::string man_page(const ProgramText& words, const std::string& command, const std::string& version);

// Requires: "bash", "zsh" or "fish".
std::string completions(const ProgramText& words, const std::string& shell);

}  // namespace paceline::cli
