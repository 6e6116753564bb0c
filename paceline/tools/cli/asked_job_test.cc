#include "paceline/tools/cli/asked_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

constexpr char kShape[] = "schedule.shape=\"table\"";

std::string table(const std::string& points) { return "schedule.table=[" + points + "]"; }

// The job of a run whose schedule has these points, asked once more with other ones.
absl::StatusOr<std::string> resumed(const std::string& before, const std::string& now,
                                    const std::vector<std::string>& sets = {}) {
  const std::string job =
      with_asked("batch = 4\n", {kShape, table(before)}, {"job.toml", "train.py", {}}).value();
  return with_asked(job, {kShape, table(now)}, {"run/job.toml", "train.py", sets, true});
}

std::string refusal(const absl::StatusOr<std::string>& job) {
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

TEST(AskedJob, AScheduleThatAnotherProcessorComputesIsTheSame) {
  const std::string before = "[0.0, 1.0], [1.0, 0.5], [1.0, 0.25], [3.0, 0.0]";
  const auto same = resumed(before, "[0.0, 1.0], [1.0, 0.5000000000000001], [1.0, 0.25], [3.0, 1e-17]");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, resumed(before, before).value()) << "the run goes on with its own";
  EXPECT_TRUE(
      resumed(before, "[0.0, 1.0], [0.5, 0.75], [1.0, 0.5], [1.0, 0.25], [2.0, 0.125], [3.0, 0.0]").ok())
      << "it keeps other points";
}

TEST(AskedJob, AnotherScheduleIsSaidByItsFirstDifference) {
  const std::string before = "[0.0, 1.0], [1.0, 0.5], [1.0, 0.25], [3.0, 0.0]";
  EXPECT_EQ(refusal(resumed(before, "[0.0, 1.0], [1.0, 0.5], [1.0, 0.375], [3.0, 0.0]")),
            "the run began with another schedule than that of train.py: at epoch 1 it has 0.375 times the "
            "rate, and had "
            "0.25 times; make it as it was, or leave it out to go on with the run's, or add --set "
            "schedule.table=[ [ 0.0, 1.0 ], [ 1.0, 0.5 ], [ 1.0, 0.375 ], [ 3.0, 0.0 ] ]");
  // The jump is a slope now, which is seen just before it.
  EXPECT_THAT(refusal(resumed(before, "[0.0, 1.0], [0.9, 0.55], [1.0, 0.25], [3.0, 0.0]")),
              HasSubstr("at epoch 1 it has 0.25 times the rate, and had 0.5 times"));
  EXPECT_THAT(refusal(resumed(before, "[0.0, 1.0]", {"schedule.table=" + before})),
              HasSubstr("is another schedule in --set than in train.py: at epoch 1 it has 0.5 times"));
}

TEST(AskedJob, ALongValueIsNotSaidWhole) {
  std::string before, now;
  for (int epoch = 0; epoch < 2'000; ++epoch) {
    before += fmt::format("[{}.0, {}],", epoch, epoch % 2 == 0 ? 1.0 : 0.5);
    now += fmt::format("[{}.0, {}],", epoch, epoch % 2 == 0 ? 1.0 : 0.4);
  }
  EXPECT_THAT(
      refusal(resumed(before, now)),
      AllOf(HasSubstr("at epoch 1 it has 0.4 times the rate, and had 0.5 times"), Not(HasSubstr("--set"))));
  std::string tensors;
  for (int i = 0; i < 1'000; ++i) tensors += fmt::format("\"layers.{}.weight\",", i);
  const auto group = [&](double rate) {
    return fmt::format("optimizer.group=[{{tensors = [{}], rate = {}}}]", tensors, rate);
  };
  const std::string job = with_asked("batch = 4\n", {group(0.1)}, {"job.toml", "train.py", {}}).value();
  EXPECT_THAT(refusal(with_asked(job, {group(0.2)}, {"run/job.toml", "train.py", {}, true})),
              AllOf(HasSubstr("the run began with optimizer.group = "),
                    HasSubstr("; say what it began with there again"), Not(HasSubstr("layers.9.weight"))));
}

}  // namespace
}  // namespace paceline::cli
