#include "paceline/launch/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::optional<Tasks> tasks_in(const Environment& environment) { return find_tasks(environment).value(); }

TEST(Tasks, ACommandThatWasStartedOnceHasNone) {
  EXPECT_FALSE(tasks_in({{"HOME", "/root"}}));
  EXPECT_FALSE(tasks_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(tasks_in({{"WORLD_SIZE", "4"}})) << "a variable of the user's own";
  // The script of sbatch.
  EXPECT_FALSE(tasks_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
  EXPECT_FALSE(tasks_in({{"PMIX_RANK", "0"}}));
}

TEST(Tasks, OfSrun) {
  Environment said = {{"SLURM_PROCID", "2"},           {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_STEP_NUM_NODES", "1"},   {"SLURM_JOB_ID", "17"},
                      {"SLURM_STEP_ID", "0"},          {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NODELIST", "node1"}};
  const auto tasks = tasks_in(said);
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->starter, "srun");
  EXPECT_EQ(tasks->rank, 2);
  EXPECT_EQ(tasks->count, 4);
  EXPECT_EQ(tasks->here, 4);
  EXPECT_EQ(tasks->name, "srun-17-0");
  EXPECT_THAT(tasks->variables, Contains("SLURM_NTASKS"));
  said["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_EQ(tasks_in(said)->here, 0) << "two hosts may have one and three";
  said["SLURM_STEP_NUM_NODES"] = "4";
  EXPECT_EQ(tasks_in(said)->here, 1);
}

TEST(Tasks, OfEachMpi) {
  const auto open = tasks_in({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "prterun-host@1"},
                              {"PMIX_RANK", "1"}});
  ASSERT_TRUE(open);
  EXPECT_EQ(open->here, 2);
  EXPECT_EQ(open->name, "mpirun-prterun-host_1");
  const auto mpich = tasks_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "4"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->rank, 3);
  EXPECT_EQ(mpich->here, 4);
  EXPECT_EQ(tasks_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}})->here, 0);
}

TEST(Tasks, TheInnermostLauncherCounts) {
  const auto tasks = tasks_in({{"SLURM_PROCID", "0"},
                               {"SLURM_STEP_NUM_TASKS", "8"},
                               {"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"}});
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->starter, "torchrun");
  EXPECT_EQ(tasks->count, 2);
}

TEST(Tasks, NumbersThatMakeNoSenseAreRefused) {
  const auto refusal = [](const Environment& environment) {
    return std::string(find_tasks(environment).status().message());
  };
  EXPECT_THAT(refusal({{"PMI_RANK", "8"}, {"PMI_SIZE", "8"}}), HasSubstr("ranks begin at 0"));
  EXPECT_THAT(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "many"}}), HasSubstr("PMI_SIZE='many'"));
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}}), HasSubstr("nothing says how often"));
}

}  // namespace
}  // namespace paceline::launch
