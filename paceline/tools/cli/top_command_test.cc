#include "paceline/tools/cli/top_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/tools/ui/testing/run_folders.h"

namespace paceline::cli {
namespace {

using std::chrono::milliseconds;

// A terminal whose user leaves after some looks.
struct Looks final : FullScreen {
  explicit Looks(std::size_t count) : most(count) {}
  std::pair<int, int> size() const override { return {80, 24}; }
  void show(const std::vector<std::string>& lines) override { shown.push_back(lines); }
  bool left(milliseconds patience) override {
    waited.push_back(patience);
    return shown.size() >= most;
  }

  const std::size_t most;
  std::vector<std::vector<std::string>> shown;
  std::vector<milliseconds> waited;
};

using TopCommandTest = ui::RunFoldersTest;

// A long run takes its time: meanwhile the screen says how far the reading is, and keys are not waited for.
TEST_F(TopCommandTest, TheUserCanLeaveWhileTheRunIsRead) {
  ui::make_run(root_ / "run");
  ui::record_run(root_ / "run");
  ui::RunFollower follower(store::RunPaths{root_ / "run"});
  Looks looks(3);
  show_run(follower, "run", looks, 10);
  EXPECT_TRUE(follower.is_behind());
  ASSERT_EQ(looks.shown.size(), 3u);
  for (const auto& lines : looks.shown)
    EXPECT_THAT(lines, testing::Contains(testing::StartsWith("reading the run: ")));
  EXPECT_THAT(looks.waited, testing::Each(milliseconds(0)));
  Looks more(1);
  show_run(follower, "run", more, 10'000);
  EXPECT_THAT(more.shown.back(), testing::Contains(testing::StartsWith("device ")));
}

}  // namespace
}  // namespace paceline::cli
