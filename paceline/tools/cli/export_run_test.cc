#include "paceline/tools/cli/export_run.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/tools/ui/testing/run_folders.h"

namespace paceline::cli {
namespace {

using FollowTensorBoardTest = ui::RunFoldersTest;

// Whether each of the files has anything, by their names.
std::vector<bool> contents(const ui::fs::path& folder) {
  std::map<std::string, bool> all;
  for (const auto& one : ui::fs::directory_iterator(folder))
    all[one.path().filename().string()] = one.file_size() > 0;
  std::vector<bool> in_order;
  for (const auto& [name, has] : all) in_order.push_back(has);
  return in_order;
}

// Each attempt has a file with the whole history, so the earlier ones would only fill the disk.
TEST_F(FollowTensorBoardTest, EarlierFilesBecomeEmptyOnceTheNewOneHasCaughtUp) {
  ui::make_run(root_ / "run");
  ui::record_run(root_ / "run");
  const auto follow = [&] {
    return follow_tensorboard((root_ / "run").string(), (root_ / "board").string());
  };
  const ui::fs::path board = root_ / "board" / "run";
  ASSERT_TRUE(follow().ok());
  EXPECT_THAT(contents(board), testing::ElementsAre(true));
  ASSERT_TRUE(follow().ok());
  EXPECT_THAT(contents(board), testing::ElementsAre(false, true));
  // Another process follows the run into the same folder.
  ui::fs::path second;
  for (const auto& one : ui::fs::directory_iterator(board)) second = std::max(second, one.path());
  const FileDescriptor written(::open(second.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(written.get(), LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(follow().ok());
  EXPECT_THAT(contents(board), testing::ElementsAre(false, true, true));
}

}  // namespace
}  // namespace paceline::cli
