#include "paceline/processes/launch/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_TRUE(tasks->on_one_host());
  EXPECT_EQ(tasks->place, 2);
  EXPECT_EQ(tasks->name, "srun-17-0");
  EXPECT_THAT(tasks->variables, Contains("SLURM_NTASKS"));
  said["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_THAT(tasks_in(said)->on_host, IsEmpty()) << "two hosts may have one and three";
  said["SLURM_STEP_NUM_NODES"] = "4";
  EXPECT_TRUE(tasks_in(said)->one_a_host());
  EXPECT_EQ(tasks_in(said)->host, 2);
}

// The ranks of --distribution=cyclic go round the hosts.
TEST(Tasks, OfSrunOnSeveralHosts) {
  Environment said = {{"SLURM_PROCID", "1"},          {"SLURM_STEP_NUM_TASKS", "11"},
                      {"SLURM_STEP_NUM_NODES", "3"},  {"SLURM_NODEID", "1"},
                      {"SLURM_LOCALID", "0"},         {"SLURM_JOB_ID", "17"},
                      {"SLURM_TASKS_PER_NODE", "16"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};
  const auto tasks = tasks_in(said);
  EXPECT_THAT(tasks->on_host, ElementsAre(4, 4, 3));
  EXPECT_EQ(tasks->host, 1);
  EXPECT_EQ(tasks->place, 0);
  EXPECT_EQ(tasks->here(), 4);
  EXPECT_EQ(tasks->place_in_job(), 4);
  EXPECT_THAT(tasks->variables, Contains("SLURM_NODEID"));
  for (const char* list : {"4(x2),2", "4(x2", "4(2),3", "0,11", "11", "4(x9999999999),3", "-4,15", "", "x"}) {
    said["SLURM_STEP_TASKS_PER_NODE"] = list;
    EXPECT_THAT(tasks_in(said)->on_host, IsEmpty()) << list;
  }
}

TEST(Tasks, OfTorchrunOnSeveralHosts) {
  Environment said = {{"RANK", "3"},       {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"},
                      {"LOCAL_RANK", "1"}, {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"}};
  const auto tasks = tasks_in(said);
  EXPECT_THAT(tasks->on_host, ElementsAre(2, 2));
  EXPECT_EQ(tasks->host, 1);
  EXPECT_EQ(tasks->place, 1);
  EXPECT_EQ(tasks->place_in_job(), 3);
  said["WORLD_SIZE"] = "5";
  EXPECT_THAT(tasks_in(said)->on_host, IsEmpty());
  said[kTasksPerHost] = "3,2";
  EXPECT_EQ(tasks_in(said)->place_in_job(), 4);
}

// Open MPI says nothing about other hosts.
TEST(Tasks, APersonSaysHowManyThereAreOnEachHost) {
  Environment said = {{"OMPI_COMM_WORLD_RANK", "2"},
                      {"OMPI_COMM_WORLD_SIZE", "5"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_THAT(tasks_in(said)->on_host, IsEmpty());
  said[kTasksPerHost] = "2,3";
  const auto tasks = tasks_in(said);
  EXPECT_THAT(tasks->on_host, ElementsAre(2, 3));
  EXPECT_EQ(tasks->host, 1);
  EXPECT_EQ(tasks->place, 0);
  EXPECT_THAT(tasks->variables, Contains(kTasksPerHost));
}

TEST(Tasks, OfEachMpi) {
  const auto open = tasks_in({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "prterun-host@1"},
                              {"PMIX_RANK", "1"}});
  ASSERT_TRUE(open);
  EXPECT_TRUE(open->on_one_host());
  EXPECT_EQ(open->name, "mpirun-prterun-host_1");
  const auto mpich = tasks_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "4"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->rank, 3);
  EXPECT_THAT(mpich->on_host, IsEmpty());
  EXPECT_THAT(tasks_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}})->on_host, IsEmpty());
  const auto one_a_host = tasks_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "1"}});
  EXPECT_TRUE(one_a_host->one_a_host());
  EXPECT_EQ(one_a_host->host, 3);
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

TEST(Tasks, VariablesThatDisagreeAreRefused) {
  Environment said = {{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  const auto refusal = [&](const std::string& name, const std::string& value) {
    said[name] = value;
    return std::string(find_tasks(said).status().message());
  };
  EXPECT_THAT(refusal(kTasksPerHost, "2,1"), HasSubstr("PACELINE_TASKS_PER_HOST='2,1' in the environment"));
  EXPECT_THAT(refusal(kTasksPerHost, "two"), HasSubstr("of each host, 4 together"));
  EXPECT_THAT(refusal(kTasksPerHost, "2,2"), HasSubstr("ranks go from host to host"))
      << "mpirun --map-by node";
  EXPECT_THAT(refusal("OMPI_COMM_WORLD_LOCAL_RANK", "1"), IsEmpty());
  EXPECT_THAT(refusal(kTasksPerHost, "3,1"), HasSubstr("task 1 of mpirun is not where"));
}

}  // namespace
}  // namespace paceline::launch
