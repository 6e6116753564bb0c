#include "paceline/tools/cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "paceline/tools/cli/examples.h"
#include "paceline/tools/cli/module_arguments.h"

namespace paceline::cli {
namespace {

std::vector<std::string> command_names() {
  CLI::App app("", "paceline");
  Command command;
  add_commands(app, command, {});
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands({})) names.push_back(one->get_name());
  return names;
}

// The words of an example as the shell would give them, without what it keeps for itself: < and > with files.
std::vector<std::string> words_of_example(const std::string& line) {
  std::vector<std::string> words = absl::StrSplit(line, ' ');
  const auto kept = std::find(words.begin(), words.end(), "<");
  words.erase(kept, words.end());
  // run_paceline takes this word out, too
  words.erase(std::find(words.begin(), words.end(), "--"), words.end());
  words.erase(words.begin());
  std::reverse(words.begin(), words.end());  // CLI11 wants the words in reverse order
  return words;
}

TEST(CommandLine, EveryExampleIsACommandThatCanBeParsed) {
  for (const std::string& name : command_names()) {
    ASSERT_FALSE(examples_of(name).empty()) << name;
    for (const std::string& line : examples_of(name)) {
      EXPECT_EQ(line.rfind("paceline " + name, 0), 0u) << line;
      CLI::App app("", "paceline");
      Command command;
      add_commands(app, command, {});
      EXPECT_NO_THROW(app.parse(words_of_example(line))) << line;
      EXPECT_TRUE(command) << line;
    }
  }
}

TEST(CommandLine, EveryHelpShowsItsExamples) {
  CLI::App app("", "paceline");
  Command command;
  add_commands(app, command, {});
  for (const CLI::App* one : app.get_subcommands({})) {
    for (const std::string& line : examples_of(one->get_name()))
      EXPECT_NE(one->help().find("  " + line), std::string::npos) << one->get_name();
  }
}

using Texts = std::vector<std::string>;

TEST(CommandLine, AModuleHasItsArgumentsInTheirOrder) {
  EXPECT_EQ(module_arguments({"run", "-m", "train", "--rate", "0.1"}, {"--rate"}, "0.1"),
            (Texts{"--rate", "0.1"}));
  EXPECT_EQ(module_arguments({"run", "--devices", "2", "-m", "train", "-a", "net", "2", "-b"},
                             {"-a", "2", "-b"}, "net"),
            (Texts{"-a", "net", "2", "-b"}));
  EXPECT_EQ(module_arguments({"run", "--devices", "2", "-m", "train", "2"}, {}, "2"), Texts{"2"});
}

// The lines of a document's shell blocks, without their comments; one that goes on in the next line is whole.
std::vector<std::string> shell_lines(const std::filesystem::path& document) {
  std::ifstream file(document);
  std::vector<std::string> lines;
  bool inside = false, goes_on = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
      continue;
    }
    if (!inside) continue;
    line = line.substr(0, std::min(line.find(" #"), line.find("# ")));
    const bool more = line.ends_with("\\");
    if (more) line.pop_back();
    goes_on ? void(lines.back() += line) : lines.push_back(line);
    goes_on = more;
  }
  return lines;
}

// Commands as the documents write them are commands of this program, and the examples that they name are
// there.
TEST(CommandLine, EveryCommandOfTheDocumentsCanBeParsed) {
  namespace fs = std::filesystem;
  std::vector<fs::path> documents{"README.md"};
  for (const auto& entry : fs::directory_iterator("docs")) documents.push_back(entry.path());
  int commands = 0;
  for (const fs::path& document : documents) {
    if (document.extension() != ".md") continue;
    for (const std::string& line : shell_lines(document)) {
      for (const std::string& part : std::vector<std::string>(absl::StrSplit(line, " && "))) {
        const std::vector<std::string> words = absl::StrSplit(part, ' ', absl::SkipEmpty());
        if (words.empty() || words.front() != "paceline") continue;
        CLI::App app("", "paceline");
        Command command;
        add_commands(app, command, {});
        EXPECT_NO_THROW(app.parse(words_of_example(absl::StrJoin(words, " ")))) << document << ": " << part;
        for (const std::string& word : words) {
          EXPECT_TRUE(!word.starts_with("examples/") || fs::exists(word)) << document << ": " << word;
        }
        ++commands;
      }
    }
  }
  EXPECT_GT(commands, 40);
}

// An unset variable of a script: `paceline server --coordinator "$UNSET"`.
TEST(CommandLine, AnEmptyWordIsRefusedByEveryCommand) {
  for (const std::string& name : command_names()) {
    CLI::App app("", "paceline");
    Command command;
    add_commands(app, command, {});
    CLI::App* one = app.get_subcommand(name);
    for (const CLI::Option* option : one->get_options()) {
      if (option->get_items_expected_max() == 0) continue;
      EXPECT_THROW(
          app.parse(option->get_positional() ? std::vector<std::string>{"", name}
                                             : std::vector<std::string>{"", option->get_name(), name}),
          CLI::ParseError)
          << name << " " << option->get_name();
      app.clear();
    }
  }
}

}  // namespace
}  // namespace paceline::cli
