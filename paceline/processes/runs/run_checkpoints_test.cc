#include "paceline/processes/runs/run_checkpoints.h"

#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
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

// The command then offers no resume. A disk that cannot be read says nothing about the checkpoints.
TEST(RunCheckpoints, SaysThatThereIsNothingToResume) {
  const store::TestDirectory run;
  const auto reason = [&] {
    return exit_reason_of(find_restart({run.path()}, GoOn::kYes, [](const std::string&) {}).status());
  };
  EXPECT_EQ(reason(), ExitReason::kNothingToResume);
  fs::create_directories(run / "checkpoints" / "v000000000001");
  store::put_bytes(run / "checkpoints" / "v000000000001" / "state.json", "damaged");
  EXPECT_EQ(reason(), ExitReason::kNothingToResume);
  fs::remove_all(run / "checkpoints");
  store::put_bytes(run / "checkpoints", "no folder");
  EXPECT_EQ(reason(), ExitReason::kOwnError);
}

}  // namespace
}  // namespace paceline::runs
