#include "paceline/processes/runs/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

// Its optimizer has a group of its own for each expert's adapter.
TEST(JobFile, OfManyTensorsIsRead) {
  const store::TestDirectory run;
  std::string job = "[[optimizer.group]]\ntensors = [";
  for (int i = 0; i < 60'000; ++i)
    job += fmt::format("\"base_model.model.model.layers.0.mlp.experts.{}.gate_proj.lora_B.weight\", ", i);
  job += "]\n";
  ASSERT_TRUE(check_length(job).ok());
  store::put_bytes(run / "job.toml", job);
  EXPECT_EQ(read_recorded_job(store::RunPaths{run.path()}).value().size(), job.size());
}

TEST(JobFile, ThatWouldNotBeReadAgainIsRefused) {
  const store::TestDirectory run;
  std::string job(kMostJobBytes, ' ');
  EXPECT_TRUE(check_length(job).ok());
  job += ' ';
  EXPECT_THAT(std::string(check_length(job).message()), testing::HasSubstr("no more than 8 MB are read"));
  store::put_bytes(run / "job.toml", job);
  EXPECT_FALSE(read_job_file(run / "job.toml").ok());
}

}  // namespace
}  // namespace paceline::runs
