#include "paceline/formats/config/job_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobDifference, TheSameJobMayBeWrittenOtherwise) {
  EXPECT_THAT(job_differences("batch = 8\n[model]\nname = \"mlp\"\n", "model.name='mlp'\n\n# here\nbatch=8"),
              IsEmpty());
}

TEST(JobDifference, NamesEachKey) {
  EXPECT_THAT(job_differences("batch = 8\nseed = 1\n[model]\nname = \"mlp\"\n",
                              "batch = 16\nseed = 1\nepochs = 2\n[model]\nname = \"mlp\"\n"),
              ElementsAre("batch = 8, and there 16", "epochs = (not said), and there 2"));
  EXPECT_THAT(job_differences("[[device]]\ncount = 2\n[[device]]\npace = 3.0\n",
                              "[[device]]\ncount = 2\n[[device]]\npace = 2.0\n"),
              ElementsAre("device[1].pace = 3.0, and there 2.0"));
}

TEST(JobDifference, IgnoresPathsOnAHost) {
  EXPECT_THAT(
      job_differences("runs_dir = \"a\"\n[data]\nsource = \"text:a\"\n[network]\ncerts = \"a\"\n",
                      "runs_dir = \"b\"\n[data]\nsource = \"text:b\"\n[network]\ntoken_file = \"b\"\n"),
      IsEmpty());
}

TEST(JobDifference, ATextThatIsNoJobDiffers) {
  EXPECT_THAT(job_differences("batch = 8\n", "batch = = 8\n"), ElementsAre(HasSubstr("not a job")));
}

}  // namespace
}  // namespace paceline::config
