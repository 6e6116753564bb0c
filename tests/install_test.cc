// The result of `cmake --install`: programs that find each other, and pages and completions that agree with
// them.
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

class Installed : public testing::Test {
 protected:
  void SetUp() override {
    const Ended made = run_in_shell(fmt::format("\"{}\" --install \"{}\" --prefix \"{}\"", INSTALL_CMAKE,
                                                INSTALL_BUILD, folder_.path().string()));
    ASSERT_EQ(made.status, 0) << made.errors;
  }

  Ended installed(const std::string& words) const {
    return run_in_shell(
        fmt::format("cd \"{0}\" && exec \"{0}/bin/paceline\" {1}", folder_.path().string(), words));
  }
  // The words at the beginning of the lines of a help that match.
  std::set<std::string> in_help(const std::string& words, const std::string& pattern) const {
    const std::string text = installed(words + " --help").output;
    const std::regex line(pattern, std::regex::multiline);
    std::set<std::string> found;
    for (std::sregex_iterator one(text.begin(), text.end(), line), end; one != end; ++one)
      found.insert((*one)[1]);
    return found;
  }

  const TempFolder folder_;
};

TEST_F(Installed, TrainsABuiltInModel) {
  const Ended ended = installed(
      "train --set epochs=0.05 --set data.max_bytes=65536 --set model.layers=1 --set model.width=16 --set "
      "evaluate.enabled=false");
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_TRUE(fs::exists(only_run(folder_ / "runs") / "report.html"));
}

// The pages are compared with the programs' own help.
TEST_F(Installed, PagesAndCompletionsSayWhatHelpSays) {
  const std::string bash = read_text(folder_ / "share/bash-completion/completions/paceline");
  const std::string zsh = read_text(folder_ / "share/zsh/vendor-completions/_paceline");
  const std::string fish = read_text(folder_ / "share/fish/vendor_completions.d/paceline.fish");
  const std::set<std::string> commands = in_help("", "^  ([a-z]+)  ");
  EXPECT_GT(commands.size(), 10u);
  EXPECT_FALSE(commands.contains("generate"));
  for (const std::string& command : commands) {
    const std::string page = read_text(folder_ / ("share/man/man1/paceline-" + command + ".1"));
    const std::set<std::string> options = in_help(command, "^  (?:-[a-z],)?--([a-z-]+) ");
    EXPECT_TRUE(options.contains("help")) << command;
    for (const std::string& option : options) {
      const std::string in_troff = std::regex_replace("--" + option, std::regex("-"), "\\-");
      EXPECT_NE(page.find(in_troff), std::string::npos) << command << " --" << option << " in " << page;
      EXPECT_TRUE(std::regex_search(bash, std::regex("\n +" + command + "\\).*--" + option + "[ ']")))
          << command << " --" << option << " in " << bash;
      EXPECT_TRUE(std::regex_search(fish, std::regex("from " + command + "'.* -l " + option + " ")))
          << command << " --" << option << " in " << fish;
      EXPECT_NE(zsh.find("--" + option), std::string::npos) << option << " in " << zsh;
    }
  }
}

TEST_F(Installed, HasThePythonPackage) {
  for (const char* file : {"__init__.py", "py.typed", "integrations/__init__.py"})
    EXPECT_TRUE(fs::exists(folder_ / "lib/python3/dist-packages/paceline" / file)) << file;
  EXPECT_FALSE(fs::exists(folder_ / "lib/python3/dist-packages/paceline/__pycache__"));
}

TEST_F(Installed, HasDocumentsExamplesAndTheUnit) {
  for (const char* name : {"README.md", "LICENSE", "docs/job.md", "examples/scenarios/static-mix.toml"})
    EXPECT_TRUE(fs::exists(folder_ / "share/doc/paceline" / name)) << name;
  const std::string unit = read_text(folder_ / "lib/systemd/system/paceline-node.service");
  EXPECT_TRUE(unit.starts_with("[Unit]\n")) << unit;
  EXPECT_NE(unit.find("\nExecStart=paceline node job.toml\n"), std::string::npos) << unit;
  EXPECT_FALSE(fs::exists(folder_ / "paceline"));  // the executable of a wheel
  EXPECT_EQ(installed("simulate share/doc/paceline/examples/scenarios/static-mix.toml --policies bsp").status,
            0);
}

}  // namespace
}  // namespace paceline::tests
