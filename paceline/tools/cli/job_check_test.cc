#include "paceline/tools/cli/job_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/transport/links/carrier.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

config::JobConfig job_of(const std::string& text) { return config::parse_job(text, "job.toml").value(); }

ps::Layout layout_of(std::int64_t parameters) {
  ps::Layout layout;
  layout.add("w", ps::TensorKind::kParameter, {parameters});
  return layout;
}

std::string said(const absl::Status& status) { return std::string(status.message()); }

TEST(JobCheck, ABatchMayBeLargerThanTheTrainingSet) {
  EXPECT_TRUE(check_sizes(job_of("batch = 1000000\n"), layout_of(4), 500).ok());
  // The batch of a planned pipeline is the sum of its devices' batches.
  const config::JobConfig stages = job_of(
      "parallel = \"static\"\nmicro_batch = 8\n[[device]]\ncount = 2\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 160\n");
  EXPECT_TRUE(check_sizes(stages, layout_of(4), 50).ok());
}

TEST(JobCheck, DropLastLeavesABatch) {
  const config::JobConfig job = job_of("batch = 100\ndrop_last = true\n");
  EXPECT_TRUE(check_sizes(job, layout_of(4), 100).ok());
  EXPECT_THAT(said(check_sizes(job, layout_of(4), 99)), HasSubstr("drop_last leaves nothing to train on"));
}

TEST(JobCheck, TensorsAndGroupsAreThoseOfTheModel) {
  EXPECT_THAT(said(check_sizes(job_of("[cluster]\nservers = 2\n"), layout_of(4), 500)),
              HasSubstr("cluster.servers"));
  EXPECT_THAT(said(check_sizes(job_of("[[optimizer.group]]\ntensors = [\"v\"]\n"), layout_of(4), 500)),
              HasSubstr("v"));
}

// The folder of jobs does not see the links.
TEST(JobCheck, EveryCarrierOfLinksIsAChoiceOfAJob) {
  for (const links::CarrierKind& carrier : links::carriers()) {
    const auto job = config::parse_job(
        fmt::format("[cluster]\nseal = false\nfabric = \"{}\"\n", carrier.name), "job.toml");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->fabric, carrier.name);
  }
}

// Two buffers of weights, the velocity and three gradients.
TEST(JobCheck, MemoryIsAtLeastWhatWeightsAndGradientsTake) {
  const config::JobConfig job = job_of("[[device]]\ncount = 3\n");
  const ps::Layout layout = layout_of(1'000'000'000);
  EXPECT_TRUE(check_memory(job, layout, {24'000'000'000, "this host"}).ok());
  EXPECT_THAT(
      said(check_memory(job, layout, {23'999'000'000, "this host"})),
      HasSubstr(
          "at least 24.0 GB of memory (1,000,000,000 parameters, 3 workers), and this host has 24.0 GB"));
  EXPECT_TRUE(check_memory(job, layout, {0, ""}).ok());
}

// A version takes 2,560,000 bytes. There are 16: the latest, one that is written, one for each of five readers, and nine
// that are kept: for evaluations, for a checkpoint, and for a commit that is made early.
TEST(JobCheck, RefusesABoardLongerThanTheLimitOfFiles) {
  const config::JobConfig job = job_of("[[device]]\ncount = 2\n");
  const std::int64_t board = 16 * 2'560'000;
  EXPECT_TRUE(check_file_size(job, layout_of(640'000), board + 100'000).ok());
  EXPECT_THAT(said(check_file_size(job, layout_of(640'000), board)),
              HasSubstr("ulimit -f allows files of 41.0 MB, and the job needs one of 41.0 MB: shared memory "
                        "counts as a file; raise it"));
  EXPECT_THAT(said(check_file_size(job, layout_of(640'000), 10'240)), HasSubstr("allows files of 10.2 kB"));
  EXPECT_TRUE(check_file_size(job, layout_of(640'000), board / 3, true).ok()) << "virtual time needs less";
}

// Before each worker loads the model.
TEST(JobCheck, NamesOfTensorsFitIntoMessages) {
  program::Model model;
  for (int i = 0; i < 60'000; ++i)
    model.layout.add(fmt::format("model.layers.0.mlp.experts.{}.gate_proj.weight", i),
                     ps::TensorKind::kParameter, {1});
  EXPECT_TRUE(check_names(std::string(4 << 20, ' '), model).ok());
  EXPECT_THAT(said(check_names(std::string(9 << 20, ' '), model)),
              HasSubstr("the job with its program's settings has 9.0 MB, and no more than 8 MB are read"));
  for (int i = 0; i < 700'000; ++i)
    model.frozen.emplace_back().name = fmt::format("model.layers.0.mlp.experts.{}.weight", i);
  EXPECT_THAT(said(check_names("", model)), HasSubstr("the model has 60000 tensors and 700000 frozen ones"));
}

TEST(HostMemory, IsKnown) {
  const launch::HostMemory memory = launch::host_memory();
  EXPECT_GT(memory.bytes, 1 << 20);
  EXPECT_FALSE(memory.of.empty());
}

}  // namespace
}  // namespace paceline::cli
