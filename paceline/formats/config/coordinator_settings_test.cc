// Tests that a job's coordinator gets the facts that the job file has.
#include "paceline/formats/config/coordinator_settings.h"

#include <string>

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

coordinator::JobSettings settings(const std::string& text) {
  return coordinator_settings(parse_job(text, "job.toml").value());
}

TEST(CoordinatorSettings, OfOneHost) {
  const auto job = settings("[[device]]\ncount = 2\n");
  ASSERT_EQ(job.devices.size(), 2u);
  EXPECT_EQ(job.devices[1].name, "w1");
  EXPECT_EQ(job.devices[1].host, HostPlace(0));
  EXPECT_EQ(job.plan.replicas.size(), 2u);
  EXPECT_EQ(job.spread, coordinator::ServerSpread::kOneHost);
  EXPECT_EQ(settings("[cluster]\nservers = 2\n").servers, 2);
  EXPECT_FALSE(job.sends_early || job.sums_in_memory || job.card_possible || job.card_required ||
               job.has_program);
  EXPECT_TRUE(settings("[cluster]\nreduction = \"group\"\n[[device]]\ncount = 2\n").sums_in_memory);
}

TEST(CoordinatorSettings, OfSeveralHosts) {
  const std::string devices = "[[device]]\ncount = 6\n";
  const auto job = settings("[cluster]\nhosts = 3\nwithout = [1]\nhost_patience_s = 7\n" + devices);
  EXPECT_EQ(job.hosts, 2);
  EXPECT_EQ(job.servers, 2);
  EXPECT_EQ(job.ranks, (std::vector{HostRank(0), HostRank(2)}));
  EXPECT_EQ(job.without, std::vector{HostRank(1)});
  EXPECT_EQ(job.left_out.size(), 2u);
  EXPECT_EQ(job.devices.back().host, HostPlace(1));
  EXPECT_EQ(job.host_patience_s, 7);
  EXPECT_EQ(job.spread, coordinator::ServerSpread::kHosts);
  EXPECT_TRUE(job.sends_early && job.seal);
  const auto twice = settings("[cluster]\nhosts = 3\ncopies = 2\nseal = false\n" + devices);
  EXPECT_EQ(twice.copies, 2);
  EXPECT_FALSE(twice.sends_early || twice.seal);
  const auto central = settings("[cluster]\nhosts = 2\nplacement = \"central\"\n" + devices);
  EXPECT_EQ(central.spread, coordinator::ServerSpread::kCentral);
  EXPECT_FALSE(central.sums_in_memory) << "the servers add on the way";
}

TEST(CoordinatorSettings, OfTheOptimizerAndTheModel) {
  EXPECT_FALSE(settings("").whole_tensors || settings("").clips);
  EXPECT_TRUE(settings("[optimizer]\nname = \"lamb\"\n").whole_tensors);
  EXPECT_TRUE(settings("[optimizer]\nclip = 1\n").clips);
  const auto grouped = settings("[[optimizer.group]]\ntensors = [\"b\"]\nrate = 0.5\n");
  Layout layout;
  layout.add("a", TensorKind::kParameter, {8});
  EXPECT_FALSE(grouped.check_model(layout).ok());
  layout.add("b", TensorKind::kParameter, {8});
  EXPECT_TRUE(grouped.check_model(layout).ok());
}

TEST(CoordinatorSettings, OfAProgram) {
  const std::string program = "[program]\nrun = \"train.py\"\n";
  const auto job = settings(program);
  EXPECT_TRUE(job.has_program && job.card_possible);
  EXPECT_FALSE(job.card_required);
  EXPECT_TRUE(settings(program + "[cluster]\nmemory = \"gpu\"\n").card_required);
  EXPECT_FALSE(settings(program + "[cluster]\nmemory = \"host\"\n").card_possible);
}

TEST(CoordinatorSettings, OfTheRun) {
  const auto job = settings("epochs = 2\n[sync]\npolicy = \"ssp:3\"\nreject_outliers = 5\n");
  EXPECT_EQ(job.controller(100).total_samples, 200);
  EXPECT_TRUE(std::holds_alternative<policy::SspSpec>(job.policy));
  EXPECT_EQ(job.reject_outliers, 5);
  EXPECT_TRUE(job.evaluates);
  EXPECT_FALSE(job.stop_at || job.replanner);
  const std::string target = "[evaluate]\ntarget = \"accuracy >= 0.6\"\n";
  EXPECT_FALSE(settings(target).stop_at) << "the run goes on";
  EXPECT_EQ(settings(target + "stop_at_target = true\n").stop_at.value().value, 0.6);
  EXPECT_FALSE(settings("[evaluate]\nenabled = false\n").evaluates);
}

}  // namespace
}  // namespace paceline::config
