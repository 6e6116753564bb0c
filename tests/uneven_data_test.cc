// Samples by speed, under every policy, live and in virtual time: the slow take few, all are trained on, and
// a recorded run gives the same orders again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

// The work of replica `id` in the run.
struct Computed {
  std::int64_t samples = 0;
  std::int64_t iterations = 0;
  double each() const { return static_cast<double>(samples) / static_cast<double>(iterations); }
};

Computed computed_by(const RecordedRun& run, int id) {
  Computed computed;
  for (const auto& [at, commit] : run.commits) {
    for (const control::CommitMember& member : commit.members) {
      if (member.replica != ReplicaId(id)) continue;
      computed.samples += member.lease.size();
      ++computed.iterations;
    }
  }
  return computed;
}

class UnevenData : public testing::TestWithParam<const char*> {
 protected:
  // Three replicas, the last one slower.
  fs::path train(std::vector<std::string> more, int pace_ms = 30, int slow_ms = 120) {
    const fs::path job = small_job(folder_.path(), "parallel = \"uneven-data\"\nepochs = 1\n");
    write_text(job,
               read_text(job) + fmt::format("[sync]\npolicy = \"{}\"\n[[device]]\ncount = 2\npace_ms = {}\n"
                                            "[[device]]\npace_ms = {}\n",
                                            GetParam(), pace_ms, slow_ms));
    more.insert(more.begin(), {"train", job.string()});
    const Ended ended = run(more);
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return only_run(folder_ / "runs");
  }

  const TempFolder folder_;
};

TEST_P(UnevenData, InVirtualTime) {
  const fs::path path = train({"--virtual"});
  const RecordedRun recorded = RecordedRun::read(path);
  expect_each_sample_once(recorded, 1);
  // 24 samples over speeds 4 : 4 : 1 are 10.7, 10.7 and 2.7; the first iteration and the last are others.
  EXPECT_NEAR(computed_by(recorded, 0).each(), 10.7, 1);
  EXPECT_NEAR(computed_by(recorded, 2).each(), 2.7, 1);
  const Ended replayed = run({"replay", path.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

class UnevenDataLive : public UnevenData {};

TEST_P(UnevenDataLive, GivesTheSlowOneLess) {
  // So much slower that it is the slowest one on a busy machine too.
  const RecordedRun recorded = RecordedRun::read(train({}, 80, 640));
  expect_each_sample_once(recorded, 1);
  EXPECT_LT(computed_by(recorded, 2).each(), computed_by(recorded, 0).each());
}

std::string test_name(const testing::TestParamInfo<const char*>& one) {
  const std::string name = one.param;
  return name.substr(0, name.find(':'));
}

INSTANTIATE_TEST_SUITE_P(Policies, UnevenData, testing::Values("bsp", "asp", "ssp:3", "cgp"), test_name);
INSTANTIATE_TEST_SUITE_P(Policies, UnevenDataLive, testing::Values("bsp", "cgp"), test_name);

}  // namespace
}  // namespace paceline::tests
