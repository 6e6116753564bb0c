#include "paceline/processes/runs/run_checkpoints.h"

#include <gtest/gtest.h>

#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

namespace fs = std::filesystem;

// A shard's file may be in it already, cut off because the disk was full.
TEST(RunCheckpoints, NothingIsLeftOfOneThatWasNotFinished) {
  const store::TestDirectory run;
  const config::JobConfig job;
  {
    RunCheckpoints checkpoints(run.path(), job, [](const std::string& line) { ADD_FAILURE() << line; });
    const auto directory = checkpoints.begin(Version(1));
    ASSERT_TRUE(directory.ok()) << directory.status();
    store::put_bytes(fs::path(*directory) / "weights-1-of-2.safetensors", "x");
  }
  EXPECT_TRUE(fs::is_empty(run / "checkpoints"));
}

}  // namespace
}  // namespace paceline::runs
