// Tests of the planner's view of a job, and that the plan comes back out of the job's text.
#include "paceline/formats/config/planning.h"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

constexpr char kJob[] =
    "parallel = \"joint\"\nbatch = 8\nwork = [1, 3]\n[[device]]\npace_ms = 40\nmemory_mb = 0.5\n"
    "[[device]]\npace = \"2x\"\nbatch = 4\n[[device]]\n[virtual]\ncompute_ms = 16\n"
    "[link]\ngbps = 8\nlatency_us = 100\n";

planner::ModelProfile measured() {
  planner::ModelProfile model;
  for (const char* name : {"a", "b"}) {
    planner::LayerProfile& layer = model.layers.emplace_back();
    layer = {
        .name = name, .work_ms = 2, .output_bytes = 100, .activation_bytes = 300, .parameter_bytes = 1000};
  }
  return model;
}

// The time of one sample through the whole model.
double sample_ms(const planner::Problem& problem, std::size_t device) {
  double ms = 0;
  for (const planner::LayerProfile& layer : problem.model.layers)
    ms += layer.work_ms / problem.cluster.devices[device].speed;
  return ms;
}

TEST(PlanningProblem, HasTheTimesThatDevicesWillTake) {
  const JobConfig job = parse_job(kJob, "job.toml").value();
  ASSERT_TRUE(job.parallel.to_be_planned);
  const planner::Problem live = planning_problem(job, measured(), RunTime::kWall);
  EXPECT_EQ(live.batch, 20);
  EXPECT_EQ(live.micro_batches, (std::vector<std::int64_t>{1, 2, 4, 8, 16}));
  EXPECT_DOUBLE_EQ(sample_ms(live, 0), 5);
  EXPECT_DOUBLE_EQ(sample_ms(live, 1), 8);
  EXPECT_DOUBLE_EQ(sample_ms(live, 2), 4);
  EXPECT_DOUBLE_EQ(live.model.layers[1].work_ms, 3);  // spread by `work`
  EXPECT_EQ(live.cluster.devices[0].memory_bytes, 500'000);
  EXPECT_EQ(live.cluster.devices[1].memory_bytes, planner::Device::kNoLimit);
  const planner::Problem modelled = planning_problem(job, measured(), RunTime::kVirtual);
  EXPECT_DOUBLE_EQ(sample_ms(modelled, 0), 5);
  EXPECT_DOUBLE_EQ(sample_ms(modelled, 1), 8);
  EXPECT_DOUBLE_EQ(sample_ms(modelled, 2), 2);
  EXPECT_DOUBLE_EQ(modelled.cluster.devices[2].servers.latency_ms, 0.1);
  EXPECT_DOUBLE_EQ(modelled.cluster.devices[2].servers.bytes_per_ms, 1e6);
}

TEST(PlanningProblem, HasTheLinksBetweenHosts) {
  const JobConfig job = parse_job(kJob, "job.toml",
                                  {"device=[{},{host=0},{host=1,link.gbps=0.8},{host=1,link.latency_us=200}]",
                                   "cluster.hosts=2"})
                            .value();
  const planner::Problem live = planning_problem(job, measured(), RunTime::kWall);
  const auto link = [&](std::int32_t from, std::int32_t to) { return live.cluster.link(from, to); };
  const planner::Link within = link(0, 1);
  EXPECT_EQ(link(2, 3).bytes_per_ms, within.bytes_per_ms);
  EXPECT_LT(within.latency_ms, 0.1);
  EXPECT_DOUBLE_EQ(link(0, 2).bytes_per_ms, 1e5) << "the slower one's";
  EXPECT_DOUBLE_EQ(link(0, 2).latency_ms, 0.1);
  EXPECT_DOUBLE_EQ(link(3, 1).bytes_per_ms, 1e6);
  EXPECT_DOUBLE_EQ(link(3, 1).latency_ms, 0.2);
  EXPECT_DOUBLE_EQ(live.cluster.devices[2].servers.bytes_per_ms, 1e5)
      << "a part of them is on the other host";
  const planner::Problem modelled = planning_problem(job, measured(), RunTime::kVirtual);
  EXPECT_EQ(modelled.cluster.link(0, 2).latency_ms, 0);
}

TEST(PlanningProblem, KnowsPowerAndSitesAndWhatTheBudgetIsOf) {
  const JobConfig job =
      parse_job(
          "parallel = \"joint\"\n[budget]\nkind = \"cross_site_mb\"\nmost = 3\nper = \"second\"\n"
          "[[device]]\npower_w = 65\n[[device]]\ncount = 2\nsite = \"b\"\n[[device]]\nsite = \"a\"\n"
          "[[device]]\nsite = \"b\"\n",
          "job.toml")
          .value();
  const planner::Problem problem = planning_problem(job, measured(), RunTime::kWall);
  EXPECT_EQ(problem.cluster.devices[0].power_w, 65);
  EXPECT_EQ(problem.cluster.devices[0].site, problem.cluster.server_site);
  std::vector<std::int32_t> sites;
  for (const planner::Device& device : problem.cluster.devices) sites.push_back(device.site);
  EXPECT_EQ(sites, (std::vector<std::int32_t>{0, 1, 1, 2, 1}));
  ASSERT_EQ(problem.budgets.size(), 1u);
  EXPECT_EQ(problem.budgets[0].kind, planner::CostKind::kCrossSite);
  EXPECT_EQ(problem.budgets[0].most, 3e6);
  EXPECT_TRUE(problem.budgets[0].per_second);
}

TEST(PlanningProblem, KeepsTheJobsMicroBatch) {
  const JobConfig job = parse_job(kJob, "job.toml", {"micro_batch=6"}).value();
  EXPECT_EQ(planning_problem(job, measured(), RunTime::kWall).micro_batches, (std::vector<std::int64_t>{6}));
}

TEST(PlanSettings, ComeBackOutOfTheJob) {
  const JobConfig job = parse_job(kJob, "job.toml").value();
  const planner::Plan plan{{{{2, 0}, {1}, 12}, {{1}, {}, 8}}, 4};
  const std::string text = resolve_job(kJob, "job.toml", plan_settings(job, measured(), plan)).value();
  const JobConfig planned = parse_job(text, "job.toml").value();
  EXPECT_FALSE(planned.parallel.to_be_planned);
  EXPECT_EQ(planned.parallel.mode, Parallel::kJoint);
  EXPECT_EQ(planned.parallel.plan, plan);
  EXPECT_EQ(planned.parallel.work, (std::vector<double>{1, 3}));
  ASSERT_EQ(planned.parallel.model.layers.size(), 2u);
  EXPECT_EQ(planned.parallel.model.layers[1].name, "b");
  EXPECT_EQ(planned.parallel.model.layers[1].activation_bytes, 300);
  EXPECT_TRUE(check_units(planned.parallel, "mlp", 2).ok());
  EXPECT_FALSE(check_units(planned.parallel, "mlp", 3).ok());
}

TEST(PlanSettings, KeepWhatWasMeasured) {
  planner::ModelProfile model = measured();
  const std::string name = "the \"first\" of C:\\model\t\x01";
  model.layers[0].name = name;
  model.layers[0].fixed_ms = 0.5;
  model.layers[1].measured = {{2, 10}, {4, 11}};
  model.layers[1].activation_fixed_bytes = 50;
  model.layers[1].frozen_bytes = 400;
  model.layers[1].returned_bytes = 200;
  model.layers[1].working_bytes = 60;
  model.layers[1].working_fixed_bytes = 70;
  model.layers[1].state_bytes = 80;
  model.layers[1].tied_bytes = 900;
  const JobConfig job = parse_job(kJob, "job.toml").value();
  const planner::Plan plan{{{{0, 1}, {1}, 20}}, 4};
  const std::string text = resolve_job(kJob, "job.toml", plan_settings(job, model, plan)).value();
  const JobConfig resolved = parse_job(text, "job.toml").value();
  ASSERT_EQ(resolved.parallel.model.layers.size(), 2);
  EXPECT_EQ(resolved.parallel.model.layers[0].name, name);
  EXPECT_EQ(resolved.parallel.model.layers[0].fixed_ms, 0.5);
  const planner::LayerProfile& layer = resolved.parallel.model.layers[1];
  EXPECT_EQ(layer.measured, model.layers[1].measured);
  EXPECT_EQ(layer.activation_fixed_bytes, 50);
  EXPECT_EQ(layer.frozen_bytes, 400);
  EXPECT_EQ(layer.returned_bytes, 200);
  EXPECT_EQ(layer.working_bytes, 60);
  EXPECT_EQ(layer.working_fixed_bytes, 70);
  EXPECT_EQ(layer.state_bytes, 80);
  EXPECT_EQ(layer.tied_bytes, 900);
  EXPECT_EQ(layer.tied_to, 0);
}

TEST(PlanSettings, MayLeaveDevicesOut) {
  const auto with = [](const std::string& mode) {
    return parse_job(
        "parallel = \"" + mode + "\"\n[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w1\"]\n[[layer]]\n",
        "job.toml");
  };
  EXPECT_TRUE(with("joint").ok());
  EXPECT_TRUE(with("frozen").ok());
  EXPECT_FALSE(with("static").ok());
  EXPECT_FALSE(with("data").ok());
}

TEST(PlannedJobs, AreNotForLocalSgd) {
  EXPECT_FALSE(parse_job("parallel = \"joint\"\n[sync]\npolicy = \"local-sgd:4\"\n", "job.toml").ok());
}

TEST(PlannedJobs, MeasureAsManyUnitsAsTheyListAndCut) {
  const std::string text = std::string(kJob) + "[[layer]]\n[[layer]]\n";
  EXPECT_TRUE(parse_job(text, "job.toml").ok());
  EXPECT_FALSE(parse_job(text + "[[layer]]\n", "job.toml").ok());
  EXPECT_FALSE(parse_job(text + "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\n", "job.toml",
                         {"micro_batch=2"})
                   .ok());
}

TEST(PlanSettings, MayGiveOneReplicaTheLargeBatchesOfAllDevices) {
  constexpr char kLarge[] = "parallel = \"joint\"\nbatch = 262144\n[[device]]\ncount = 8\n";
  const JobConfig job = parse_job(kLarge, "job.toml").value();
  const planner::Problem problem = planning_problem(job, measured(), RunTime::kWall);
  const planner::Plan plan{{{{3}, {}, problem.batch}}, problem.micro_batches.back()};
  const auto text = resolve_job(kLarge, "job.toml", plan_settings(job, measured(), plan));
  ASSERT_TRUE(text.ok()) << text.status();
  const auto planned = parse_job(*text, "job.toml");
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->parallel.plan.replicas[0].samples, 2'097'152);
}

}  // namespace
}  // namespace paceline::config
