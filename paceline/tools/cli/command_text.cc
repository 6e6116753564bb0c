#include "paceline/tools/cli/command_text.h"

#include <absl/strings/str_split.h>

namespace paceline::cli {

namespace {

OptionText option_text(const CLI::Option& option) {
  OptionText words;
  words.about = option.get_description();
  words.required = option.get_required();
  words.repeated = option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  if (words.names.empty()) words.names.push_back(option.get_name());
  if (option.get_items_expected_max() == 0) return words;
  // Behind the type there may be what is checked: "INT:NONNEGATIVE", "INT in [1 - 100]".
  const std::string type = option.get_type_name();
  words.value = type.substr(0, type.find_first_of(": "));
  if (words.value.empty()) words.value = "TEXT";
  if (words.value.find('|') != std::string::npos) words.choices = absl::StrSplit(words.value, '|');
  return words;
}

CommandText command_text(const CLI::App& command) {
  CommandText words{command.get_name(), command.get_description(), command.get_footer(), {}, {}};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? words.positionals : words.options).push_back(option_text(*option));
  }
  return words;
}

}  // namespace

ProgramText words_of(const CLI::App& app) {
  ProgramText words{command_text(app), {}};
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) words.commands.push_back(command_text(*command));
  }
  return words;
}

}  // namespace paceline::cli
