#include "paceline/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_error(const Environment& environment, const std::string& part) {
  const auto placement = find_placement(environment);
  EXPECT_TRUE(absl::IsInvalidArgument(placement.status()));
  EXPECT_THAT(std::string(placement.status().message()), HasSubstr(part));
}

TEST(Placement, OneHostWhereNothingIsSaid) { EXPECT_EQ(*find_placement({{"HOME", "/root"}}), Placement{}); }

TEST(Placement, AsTorchrunSays) {
  const Environment said = {{"RANK", "2"},
                            {"WORLD_SIZE", "3"},
                            {"LOCAL_RANK", "0"},
                            {"MASTER_ADDR", "gpu1"},
                            {"MASTER_PORT", "29500"}};
  EXPECT_EQ(*find_placement(said), (Placement{2, 3, "gpu1", 29500}));
  Environment several = said;
  several["LOCAL_WORLD_SIZE"] = "8";
  expect_error(several, "--nproc-per-node=1");
}

TEST(Placement, AsSlurmSays) {
  Environment said = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "node[07-08]"}};
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "node07", Placement::kUsualPort}));
  said["MASTER_ADDR"] = "10.0.0.1";
  said["MASTER_PORT"] = "7000";
  EXPECT_EQ(*find_placement(said), (Placement{1, 2, "10.0.0.1", 7000}));
  said.erase("SLURM_NTASKS");
  said["SLURM_NNODES"] = "4";
  EXPECT_EQ(find_placement(said)->hosts, 4);
}

TEST(Placement, AsOpenMpiSays) {
  Environment said = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  expect_error(said, "MASTER_ADDR");
  said["MASTER_ADDR"] = "a";
  EXPECT_EQ(*find_placement(said), (Placement{0, 2, "a", Placement::kUsualPort}));
}

// mpirun under Slurm sets both, and torchrun in either.
TEST(Placement, WhoeverStartedItLastIsHeard) {
  Environment said = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_NODELIST", "a,b"}};
  said["OMPI_COMM_WORLD_RANK"] = "1";
  said["OMPI_COMM_WORLD_SIZE"] = "2";
  said["MASTER_ADDR"] = "a";
  EXPECT_EQ(find_placement(said)->rank, 1);
  said["RANK"] = "4";
  said["WORLD_SIZE"] = "5";
  EXPECT_EQ(find_placement(said)->rank, 4);
}

TEST(Placement, WhatMakesNoSenseIsSaid) {
  expect_error({{"RANK", "0"}}, "WORLD_SIZE=''");
  expect_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, "RANK='2'");
  expect_error({{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK='x'");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE='0'");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
               "MASTER_PORT");
  expect_error({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "MASTER_ADDR");
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
  const std::string spread = "[cluster]\nhosts = 2\n[[replica]]\ncount = 5\n";
  EXPECT_THAT(workers(spread, 0), ElementsAre("w0", "w1", "w2"));
  EXPECT_THAT(workers(spread, 1), ElementsAre("w3", "w4"));
  const std::string said = "[cluster]\nhosts = 2\n[[replica]]\nhost = 1\ncount = 2\n[[replica]]\nhost = 0\n";
  EXPECT_THAT(workers(said, 0), ElementsAre("w2"));
  EXPECT_THAT(workers(said, 1), ElementsAre("w0", "w1"));
}

}  // namespace
}  // namespace paceline::launch
