#include "paceline/tools/cli/command_text.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// A program with all that can stand on a command line, and signs that shells and troff take for their own.
class CommandWordsTest : public ::testing::Test {
 protected:
  CommandWordsTest() : app_("Does things.", "tool") {
    app_.set_version_flag("--version", "tool 1");
    CLI::App* work = app_.add_subcommand("work", "it's [here]: a\\b");
    work->add_option("job", job_, ".job of yours")->required();
    work->add_option("--set", sets_, "KEY=VALUE")->allow_extra_args(false);
    work->add_option("-n,--number", number_, "so many")->check(CLI::Range(1, 100));
    work->add_flag("--fast", fast_, "at once");
    work->footer("More of it.");
    CLI::App* get = app_.add_subcommand("get", "a set");
    get->add_option("set", job_, "which")->type_name("big|small")->required();
    get->add_option("to", job_, "where")->required();
    app_.add_subcommand("secret", "for the build")->group("");
    std::string pattern = ::testing::TempDir() + "paceline-words-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) dir_ = pattern;
  }
  ~CommandWordsTest() override { fs::remove_all(dir_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name) << text;
    return dir_ / name;
  }

  // Both streams, and the exit status at the end.
  static std::string output_of(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("(" + command + ") 2>&1; echo =$?").c_str(), "r"),
                                                     pclose);
    std::string text;
    for (int c = 0; pipe != nullptr && (c = fgetc(pipe.get())) != EOF;) text += static_cast<char>(c);
    return text;
  }
  static bool there(const std::string& program) {
    return output_of("command -v " + program).ends_with("=0\n");
  }

  CLI::App app_;
  std::string job_;
  std::vector<std::string> sets_;
  int number_ = 1;
  bool fast_ = false;
  fs::path dir_;
};

TEST_F(CommandWordsTest, HasWhatPeopleSee) {
  const ProgramText words = words_of(app_);
  EXPECT_EQ(words.program.name, "tool");
  ASSERT_EQ(words.commands.size(), 2u);
  const CommandText& work = words.commands[0];
  EXPECT_EQ(work.name, "work");
  EXPECT_EQ(work.more, "More of it.");
  ASSERT_EQ(work.positionals.size(), 1u);
  EXPECT_EQ(work.positionals[0].names, (std::vector<std::string>{"job"}));
  EXPECT_TRUE(work.positionals[0].required);
  ASSERT_EQ(work.options.size(), 4u);
  EXPECT_EQ(work.options[0].names, (std::vector<std::string>{"-h", "--help"}));
  EXPECT_EQ(work.options[0].value, "");
  EXPECT_EQ(work.options[1].value, "TEXT");
  EXPECT_TRUE(work.options[1].repeated);
  EXPECT_EQ(work.options[2].names, (std::vector<std::string>{"-n", "--number"}));
  EXPECT_EQ(work.options[2].value, "INT");
  EXPECT_EQ(work.options[3].value, "");
  EXPECT_TRUE(work.options[1].choices.empty());
  EXPECT_EQ(words.commands[1].positionals[0].choices, (std::vector<std::string>{"big", "small"}));
}

TEST_F(CommandWordsTest, ManPagesSayAll) {
  const ProgramText words = words_of(app_);
  const std::string program = man_page(words, "tool", "1.0");
  EXPECT_THAT(program, HasSubstr("tool\\-work"));
  EXPECT_THAT(program, Not(HasSubstr("secret")));
  const std::string work = man_page(words, "work", "1.0");
  EXPECT_THAT(work, HasSubstr(".SH ARGUMENTS\n"));
  EXPECT_THAT(work, HasSubstr("KEY=VALUE (may be repeated)"));
  for (const char* part : {".TH TOOL-WORK 1", "\\-\\-set", "\\-n\\fP, \\fB\\-\\-number", "\\&.job of yours",
                           "More of it.", "a\\eb"}) {
    EXPECT_THAT(work, HasSubstr(part));
  }
  ProgramText said = words;  // its text says so already
  said.commands[0].options[1].about = "KEY=VALUE; you may repeat it";
  EXPECT_THAT(man_page(said, "work", "1.0"), Not(HasSubstr("may be repeated")));
  if (!there("groff")) GTEST_SKIP() << "groff is not there to read them";
  for (const std::string& page : {program, work})
    EXPECT_EQ(output_of("groff -man -ww -z -Tutf8 -K utf8 " + file("page.1", page)), "=0\n") << page;
}

TEST_F(CommandWordsTest, BashOffersCommandsAndOptions) {
  const std::string script = file("bash", completions(words_of(app_), "bash"));
  const auto offered = [&](const std::string& words, int at) {
    return output_of(
        fmt::format("bash -uc '. {}; COMP_WORDS=({}); COMP_CWORD={}; _tool; echo ${{COMPREPLY[*]:-}}'",
                    script, words, at));
  };
  EXPECT_EQ(offered("tool \"\"", 1), "-h --help --version work get\n=0\n");
  EXPECT_EQ(offered("tool w", 1), "work\n=0\n");
  EXPECT_EQ(offered("tool work --", 2), "--help --set --number --fast\n=0\n");
  EXPECT_EQ(offered("tool work job.toml --f", 3), "--fast\n=0\n");
  EXPECT_EQ(offered("tool work jo", 2), "\n=0\n");  // bash offers files then
  EXPECT_EQ(offered("tool secret --", 2), "\n=0\n");
  EXPECT_EQ(offered("tool get \"\"", 2), "big small\n=0\n");
  EXPECT_EQ(offered("tool get s", 2), "small\n=0\n");
  EXPECT_EQ(offered("tool get small s", 3), "\n=0\n");
  EXPECT_EQ(offered("tool get --", 2), "--help\n=0\n");
}

TEST_F(CommandWordsTest, ZshAndFishReadTheirs) {
  const ProgramText words = words_of(app_);
  const std::string zsh = completions(words, "zsh");
  EXPECT_TRUE(zsh.starts_with("#compdef tool\n"));
  EXPECT_THAT(zsh, HasSubstr("'*--set=[KEY=VALUE]:TEXT:_files'"));
  EXPECT_THAT(zsh, HasSubstr("'*--fast[at once]'"));
  EXPECT_THAT(zsh, HasSubstr("'1:set:(big small)'"));
  EXPECT_THAT(zsh, HasSubstr("'work:it'\\''s [here]\\: a\\b'"));
  const std::string fish = completions(words, "fish");
  EXPECT_THAT(fish, HasSubstr("-a work -d 'it\\'s [here]: a\\\\b'\n"));
  EXPECT_THAT(fish, HasSubstr("-n '__fish_seen_subcommand_from work' -s n -l number -r -d 'so many'\n"));
  EXPECT_THAT(fish, HasSubstr("-eq 2' -f -a 'big small'\n"));
  if (there("zsh")) {
    EXPECT_EQ(output_of("zsh -n " + file("_tool", zsh)), "=0\n");
  }
  if (there("fish")) {
    EXPECT_EQ(output_of("fish -n " + file("tool.fish", fish)), "=0\n");
  }
}

}  // namespace
}  // namespace paceline::cli
