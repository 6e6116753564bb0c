#include <string_view>
#include <utility>

#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/tools/cli/command_text.h"

namespace paceline::cli {

namespace {

std::vector<std::string> option_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// "data/2) …": what may stand in that place. Nothing for other words of a command.
std::string bash_places(const ProgramText& words) {
  std::string cases;
  for (const CommandText& command : words.commands) {
    std::size_t place = 2;
    for (const OptionText& word : command.positionals) {
      if (!word.choices.empty())
        cases += fmt::format("        {}/{}) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n", command.name,
                             place, absl::StrJoin(word.choices, " "));
      ++place;
    }
  }
  return cases.empty() ? "" : "      case ${COMP_WORDS[1]}/$COMP_CWORD in\n" + cases + "      esac\n";
}

// If this offers nothing, bash offers files.
std::string bash(const ProgramText& words) {
  const std::string& program = words.program.name;
  std::vector<std::string> first = option_names(words.program);
  std::string cases;
  for (const CommandText& command : words.commands) {
    first.push_back(command.name);
    cases +=
        fmt::format("    {}) offered='{}' ;;\n", command.name, absl::StrJoin(option_names(command), " "));
  }
  return fmt::format(R"(_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} offered=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{1}' -- "$word"))
    return
  fi
  case $word in
    -*) ;;
    *)
{3}      return
      ;;
  esac
  case ${{COMP_WORDS[1]}} in
{2}  esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o default -F _{0} {0}
)",
                     program, absl::StrJoin(first, " "), cases, bash_places(words));
}

std::string quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

std::string zsh_spec(const OptionText& option, const std::string& name) {
  const std::string about =
      absl::StrReplaceAll(option.about, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  const bool value = !option.value.empty();
  const char* sign = value && name.starts_with("--") ? "=" : "";
  return quoted(fmt::format("*{}{}[{}]{}", name, sign, about, value ? ":" + option.value + ":_files" : ""));
}

std::string zsh_arguments(const CommandText& command) {
  std::string text = "_arguments";
  for (const OptionText& option : command.options) {
    for (const std::string& name : option.names) text += " \\\n        " + zsh_spec(option, name);
  }
  for (std::size_t i = 0; i < command.positionals.size(); ++i) {
    const OptionText& word = command.positionals[i];
    if (!word.choices.empty())
      text += " \\\n        " +
              quoted(fmt::format("{}:{}:({})", i + 1, word.names.front(), absl::StrJoin(word.choices, " ")));
  }
  return text;
}

std::string zsh(const ProgramText& words) {
  std::string commands, cases;
  for (const CommandText& command : words.commands) {
    commands += fmt::format("      {}\n",
                            quoted(command.name + ":" + absl::StrReplaceAll(command.about, {{":", "\\:"}})));
    cases += fmt::format("    {})\n      {} \\\n        '*:file:_files'\n      ;;\n", command.name,
                         zsh_arguments(command));
  }
  return fmt::format(R"(#compdef {0}
_{0}() {{
  if (( CURRENT == 2 )); then
    local -a commands
    commands=(
{1}    )
    _describe -t commands command commands
    {2}
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{3}  esac
}}
if [[ $funcstack[1] = _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     words.program.name, commands, zsh_arguments(words.program), cases);
}

std::string fish_quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}) + "'";
}

std::string fish_options(const std::string& program, const std::string& condition,
                         const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    text += fmt::format("complete -c {} -n {}", program, fish_quoted(condition));
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      text += fmt::format(" {} {}", is_long ? "-l" : "-s", name.substr(is_long ? 2 : 1));
    }
    text += fmt::format("{} -d {}\n", option.value.empty() ? "" : " -r", fish_quoted(option.about));
  }
  return text;
}

std::string fish(const ProgramText& words) {
  const std::string& program = words.program.name;
  std::string text = fish_options(program, "__fish_use_subcommand", words.program);
  for (const CommandText& command : words.commands) {
    text += fmt::format("complete -c {} -n __fish_use_subcommand -f -a {} -d {}\n", program, command.name,
                        fish_quoted(command.about));
    text += fish_options(program, "__fish_seen_subcommand_from " + command.name, command);
    std::size_t before = 2;
    for (const OptionText& word : command.positionals) {
      if (!word.choices.empty())
        text += fmt::format(
            "complete -c {} -n '__fish_seen_subcommand_from {}; and test (count (commandline -opc)) -eq {}' "
            "-f "
            "-a '{}'\n",
            program, command.name, before, absl::StrJoin(word.choices, " "));
      ++before;
    }
  }
  return text;
}

}  // namespace

std::string completions(const ProgramText& words, const std::string& shell) {
  const std::string note =
      fmt::format("# Made by {} generate {}: as the program itself says.\n", words.program.name, shell);
  if (shell == "bash") return note + bash(words);
  if (shell == "fish") return note + fish(words);
  PACELINE_CHECK(shell == "zsh", "no shell {}", shell);
  const std::string text = zsh(words);
  // Its first line says what it is for.
  const std::size_t second = text.find('\n') + 1;
  return text.substr(0, second) + note + text.substr(second);
}

}  // namespace paceline::cli
