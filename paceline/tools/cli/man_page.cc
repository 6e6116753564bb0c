#include <algorithm>

#include <absl/strings/ascii.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/tools/cli/command_text.h"

namespace paceline::cli {

namespace {

// A dash is a dash, and no line begins with what troff takes for a command of its own.
std::string troff(const std::string& text) {
  std::string safe = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", "\n.br\n\\&"}});
  if (!safe.empty() && (safe[0] == '.' || safe[0] == '\'')) safe.insert(0, "\\&");
  return safe;
}

std::string bold(const std::string& text) { return "\\fB" + troff(text) + "\\fP"; }
std::string slanted(const std::string& text) { return "\\fI" + troff(text) + "\\fP"; }

std::string item(const OptionText& option, bool positional) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(positional ? slanted(name) : bold(name));
  std::string text = ".TP\n" + absl::StrJoin(names, ", ");
  if (!positional && !option.value.empty()) text += " " + slanted(option.value);
  text += "\n" + troff(option.about);
  if (option.required) text += " (needed)";
  if (option.repeated && option.about.find("repeat") == std::string::npos) text += " (may be repeated)";
  return text + "\n";
}

std::string synopsis(const std::string& program, const CommandText& command) {
  std::string text = bold(program == command.name ? program : program + " " + command.name);
  if (!command.options.empty()) text += " [" + slanted("options") + "]";
  for (const OptionText& word : command.positionals) {
    std::string one = slanted(word.names.front());
    if (word.repeated) one += " …";
    text += " " + (word.required ? one : "[" + one + "]");
  }
  return text;
}

std::string page_name(const std::string& program, const std::string& command) {
  return program == command ? program : program + "-" + command;
}

}  // namespace

std::string man_page(const ProgramText& words, const std::string& name, const std::string& version) {
  const std::string& program = words.program.name;
  const auto found = std::find_if(words.commands.begin(), words.commands.end(),
                                  [&](const CommandText& one) { return one.name == name; });
  PACELINE_CHECK(name == program || found != words.commands.end(), "no command {}", name);
  const CommandText& command = name == program ? words.program : *found;
  std::string text = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n",
                                 absl::AsciiStrToUpper(page_name(program, name)), program, version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", troff(page_name(program, name)), troff(command.about));
  text += ".SH SYNOPSIS\n" + synopsis(program, command);
  if (name == program) text += " " + slanted("command") + " …";
  text += "\n";
  if (!command.positionals.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionText& word : command.positionals) text += item(word, true);
  if (!command.options.empty()) text += ".SH OPTIONS\n";
  for (const OptionText& option : command.options) text += item(option, false);
  if (name == program) {
    text += ".SH COMMANDS\n";
    for (const CommandText& one : words.commands)
      text += fmt::format(".TP\n{}(1)\n{}\n", bold(page_name(program, one.name)), troff(one.about));
  }
  if (!command.more.empty()) text += ".SH NOTES\n" + troff(command.more) + "\n";
  text +=
      ".SH EXIT STATUS\n0 if all is well; 2 with one line on standard error that says what is wrong and "
      "what to do; 128 + n after signal n.\n";
  if (name != program) text += fmt::format(".SH SEE ALSO\n{}(1)\n", bold(program));
  return text;
}

}  // namespace paceline::cli
