#include "paceline/processes/launch/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_error(const Environment& environment, const std::string& part, const SaidPlacement& said = {}) {
  const auto placement = find_placement(environment, said);
  EXPECT_TRUE(absl::IsInvalidArgument(placement.status()));
  EXPECT_THAT(std::string(placement.status().message()), HasSubstr(part));
}

TEST(Placement, IsOneHostIfNothingIsSet) { EXPECT_EQ(*find_placement({{"HOME", "/root"}}), Placement{}); }

TEST(Placement, ReadsTorchrunsVariables) {
  const Environment said = {{"RANK", "2"},
                            {"WORLD_SIZE", "3"},
                            {"LOCAL_RANK", "0"},
                            {"MASTER_ADDR", "gpu1"},
                            {"MASTER_PORT", "29500"}};
  EXPECT_EQ(*find_placement(said), (Placement{2, 3, "gpu1", 29500}));
  Environment several = said;
  several["LOCAL_WORLD_SIZE"] = "8";
  expect_error(several, "--nproc_per_node=1");
}

TEST(Placement, APortThatTorchrunItselfListensOnIsNotTheCoordinators) {
  Environment said = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "29500"}};
  said["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(find_placement(said)->port, 29500);
  said["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "gpu1", 0}));
}

TEST(Placement, ReadsSlurmsVariables) {
  Environment said = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "node[07-08]"}};
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "node07", 0}));
  said["MASTER_ADDR"] = "10.0.0.1";
  said["MASTER_PORT"] = "7000";
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "10.0.0.1", 7000}));
  said.erase("SLURM_NTASKS");
  said["SLURM_NNODES"] = "4";
  EXPECT_EQ(find_placement(said)->hosts, 4);
}

TEST(Placement, AStepOfSlurmIsNotItsWholeJob) {
  const Environment said = {{"SLURM_PROCID", "1"},
                            {"SLURM_NTASKS", "8"},
                            {"SLURM_NNODES", "4"},
                            {"SLURM_JOB_NODELIST", "node[01-04]"},
                            {"SLURM_STEP_NUM_TASKS", "2"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"SLURM_STEP_NODELIST", "node[03-04]"}};
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "node03", 0}));
}

TEST(Placement, SeveralProcessesAHostAreRefused) {
  Environment slurm = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "a,b"}};
  slurm["SLURM_NNODES"] = "2";
  expect_error(slurm, "srun --ntasks-per-node=1");
  slurm["SLURM_STEP_NUM_TASKS"] = "2";
  EXPECT_TRUE(find_placement(slurm).ok());
  slurm["SLURM_STEP_NUM_NODES"] = "1";
  expect_error(slurm, "srun --ntasks-per-node=1");
  EXPECT_TRUE(find_placement(slurm, {.rank = 1, .hosts = 2}).ok()) << "who says both means it";
  Environment mpi = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_TRUE(find_placement(mpi).ok());
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  expect_error(mpi, "mpirun --map-by ppr:1:node");
}

TEST(Placement, ReadsOpenMpisVariables) {
  Environment said = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  expect_error(said, "MASTER_ADDR");
  said["MASTER_ADDR"] = "a";
  EXPECT_EQ(*find_placement(said), (Placement{0, 2, "a", 0}));
}

// mpirun under Slurm sets both, and torchrun in either.
TEST(Placement, PrefersTheInnermostLauncher) {
  Environment said = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_NODELIST", "a,b"}};
  said["OMPI_COMM_WORLD_RANK"] = "1";
  said["OMPI_COMM_WORLD_SIZE"] = "2";
  said["MASTER_ADDR"] = "a";
  EXPECT_EQ(find_placement(said)->rank, 1);
  said["RANK"] = "4";
  said["WORLD_SIZE"] = "5";
  EXPECT_EQ(find_placement(said)->rank, 4);
}

TEST(Placement, RefusesValuesThatMakeNoSense) {
  expect_error({{"RANK", "0"}}, "WORLD_SIZE=''");
  expect_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, "RANK='2'");
  expect_error({{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK='x'");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE='0'");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
               "MASTER_PORT");
  expect_error({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "MASTER_ADDR");
}

TEST(Placement, TheCommandLineLiesOverTheEnvironmentKeyByKey) {
  const Environment mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_EQ(*find_placement(mpi, {.coordinator = "node1:7000"}), (Placement{1, 2, "node1", 7000}));
  Environment said = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "7000"}};
  EXPECT_EQ(*find_placement(said, {.rank = 1}), (Placement{1, 2, "a", 7000}));
  EXPECT_EQ(*find_placement(said, {.hosts = 3}), (Placement{0, 3, "a", 7000}));
  EXPECT_EQ(*find_placement(said, {.coordinator = "[::1]:9"}), (Placement{0, 2, "[::1]", 9}));
  EXPECT_EQ(*find_placement(said, {.coordinator = "2001:db8::1:9"}), (Placement{0, 2, "[2001:db8::1]", 9}));
  const Environment address = {{"MASTER_ADDR", "a"}};
  EXPECT_EQ(*find_placement(address, {.rank = 1, .hosts = 2}), (Placement{1, 2, "a", 0}));
  said["MASTER_PORT"] = "x";
  said["RANK"] = "y";
  EXPECT_EQ(*find_placement(said, {.rank = 1, .coordinator = "b:9"}), (Placement{1, 2, "b", 9}));
}

TEST(Placement, NamesMissingOptions) {
  expect_error({}, "--coordinator HOST:PORT, or set MASTER_ADDR", {.rank = 1, .hosts = 2});
  expect_error({}, "--rank 1: write --hosts too", {.rank = 1, .coordinator = "a:1"});
  expect_error({}, "--hosts 2: write --rank too", {.hosts = 2, .coordinator = "a:1"});
  expect_error({}, "--rank 2 of --hosts 2: ranks begin at 0", {.rank = 2, .hosts = 2, .coordinator = "a:1"});
  const Environment said = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
  expect_error(said, "--rank 2 of WORLD_SIZE='2'", {.rank = 2});
  expect_error(said, "RANK='1' of --hosts 1", {.hosts = 1});
  for (const char* wrong : {"a", "a:", ":1", "a:0", "a:65536", "a:99999999", "a:x"})
    expect_error(said, fmt::format("--coordinator '{}': write HOST:PORT", wrong), {.coordinator = wrong});
}

TEST(Placement, ThePortIsTheJobsWhereNobodySaysAnother) {
  const auto port = [](std::int64_t said, const std::string& listen) {
    const std::string text = fmt::format("[network]\ncerts = \"c\"\nlisten = \"{}\"\n", listen);
    return port_of_coordinator({1, 2, "a", said}, config::parse_job(text, "job.toml").value());
  };
  EXPECT_EQ(port(8000, "0.0.0.0:9000"), 8000);
  EXPECT_EQ(port(0, "0.0.0.0:9000"), 9000);
  EXPECT_EQ(port(0, "[::]:9000"), 9000);
  EXPECT_EQ(port(0, "0.0.0.0:0"), kUsualPort);
  EXPECT_EQ(port_of_coordinator({}, config::parse_job("", "job.toml").value()), kUsualPort);
}

TEST(Placement, TheFirstOfANodelist) {
  EXPECT_EQ(first_of_nodelist("node1"), "node1");
  EXPECT_EQ(first_of_nodelist("node1,node2"), "node1");
  EXPECT_EQ(first_of_nodelist("node[01-04,07],gpu3"), "node01");
  EXPECT_EQ(first_of_nodelist("node[9,11]"), "node9");
  EXPECT_EQ(first_of_nodelist("rack[1-2]n[3-4].x"), "rack1n3.x");
  EXPECT_EQ(first_of_nodelist(""), "");
  EXPECT_EQ(first_of_nodelist("node[01"), "");
}

std::vector<std::string> workers(const std::string& job, std::int64_t host) {
  return workers_of_host(config::parse_job(job, "job.toml").value(), host);
}

TEST(Placement, DevicesGoWhereTheJobHasThem) {
  const std::string spread = "[cluster]\nhosts = 2\n[[device]]\ncount = 5\n";
  EXPECT_THAT(workers(spread, 0), ElementsAre("w0", "w1", "w2"));
  EXPECT_THAT(workers(spread, 1), ElementsAre("w3", "w4"));
  const std::string said = "[cluster]\nhosts = 2\n[[device]]\nhost = 1\ncount = 2\n[[device]]\nhost = 0\n";
  EXPECT_THAT(workers(said, 0), ElementsAre("w2"));
  EXPECT_THAT(workers(said, 1), ElementsAre("w0", "w1"));
}

}  // namespace
}  // namespace paceline::launch
