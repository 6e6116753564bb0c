#include "paceline/formats/config/job_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/toml_text.h"

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

TEST(JobDifference, AJobWhosePythonHasMovedIsTheSame) {
  const std::string before = "batch = 8\n[program]\npython = \"/a/python\"\n[network]\ncerts = \"/certs\"\n";
  EXPECT_EQ(moved_settings(before, before), std::vector<std::string>());
  const auto moved =
      moved_settings("batch = 0x8\n[program]\npython = \"/b\"\n[network]\ncerts = \"/certs\"\n", before);
  ASSERT_TRUE(moved);
  ASSERT_EQ(moved->size(), 1u);
  auto again = parse_toml(before, "job.toml");
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(lay_over(*again, *moved).ok());
  EXPECT_EQ((*again)["program"]["python"].value<std::string>(), "/b");
}

TEST(JobDifference, AJobOfAnotherProgramOrWithoutCertificatesIsAnother) {
  const std::string before = "[program]\nrun = \"a.py\"\n[network]\ncerts = \"/certs\"\n";
  EXPECT_FALSE(moved_settings("[program]\nrun = \"b.py\"\n[network]\ncerts = \"/certs\"\n", before));
  EXPECT_FALSE(moved_settings("[program]\nrun = \"a.py\"\n", before));
  EXPECT_FALSE(moved_settings("batch = = 8\n", before));
}

TEST(JobDifference, ATextThatIsNoJobDiffers) {
  EXPECT_THAT(job_differences("batch = 8\n", "batch = = 8\n"), ElementsAre(HasSubstr("not a job")));
}

}  // namespace
}  // namespace paceline::config
