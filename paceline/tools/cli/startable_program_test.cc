#include "paceline/tools/cli/startable_program.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class StartableProgram : public ::testing::Test {
 protected:
  StartableProgram() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "package");
    std::ofstream(folder_ / "train") << "import paceline\n";
  }
  ~StartableProgram() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "startable-program";
};

std::string refusal_of(const std::string& run, const std::string& folder = "") {
  return std::string(startable_program(run, folder).status().message());
}

TEST_F(StartableProgram, AScriptNeedsNoEnding) {
  const std::string script = (folder_ / "train").string();
  EXPECT_EQ(startable_program(script, "").value(), script);
}

TEST_F(StartableProgram, OfAFolderItIsTheMainModule) {
  const std::string package = (folder_ / "package").string();
  EXPECT_THAT(refusal_of(package), HasSubstr("is a folder without a __main__.py"));
  std::ofstream(folder_ / "package" / "__main__.py") << "import paceline\n";
  EXPECT_EQ(startable_program(package, "").value(), package + "/__main__.py");
}

TEST_F(StartableProgram, StandardInputAndAPipeCanBeReadOnlyOnce) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& run : {std::string("-"), pipe, std::string("/dev/null"), std::string("/dev/stdin")})
    EXPECT_THAT(refusal_of(run), HasSubstr("write the program to a file")) << run;
}

TEST_F(StartableProgram, AMissingScriptIsNamed) {
  EXPECT_THAT(refusal_of("none.py", folder_.string()), HasSubstr("none.py: no such file"));
}

// Such a program may be in PATH.
TEST_F(StartableProgram, AnyOtherNameStays) {
  EXPECT_EQ(startable_program("my-trainer", "").value(), "my-trainer");
}

}  // namespace
}  // namespace paceline::cli
