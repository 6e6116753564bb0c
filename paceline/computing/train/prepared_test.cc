#include "paceline/computing/train/prepared.h"

#include <filesystem>
#include <iterator>

#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

config::JobConfig job_of(const std::string& source, const std::string& model) {
  config::JobConfig job;
  job.data.source = source;
  job.model.name = model;
  return job;
}

std::size_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(PrepareForks, IsReadOnceForItsJob) {
  const std::size_t before = threads();
  const config::JobConfig job = job_of("digits", "cnn");
  prepare_forks(job);
  EXPECT_EQ(threads(), before) << "such a process may not be forked";
  const auto data = data_of(job);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(*data_of(job), *data);

  config::JobConfig other = job;
  other.data.train_samples = 10;
  const auto less = data_of(other);
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ((*less)->train->size(), 10);
  EXPECT_NE(*data_of(job), *less);
}

TEST(PrepareForks, LeavesWhatIsWrongToTheForks) {
  const config::JobConfig job = job_of("text:/nowhere", "gpt-byte");
  prepare_forks(job);
  EXPECT_EQ(data_of(job).status().code(), absl::StatusCode::kNotFound);
  prepare_forks(job_of("digits", "no-such-model"));
}

}  // namespace
}  // namespace paceline::train
