// Jobs whose planner says which device computes what: before the run, in virtual time as well, and again
// while it goes on, over real processes.
#include <signal.h>

#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

// Four units of one size; a device holds three at the most.
constexpr char kLayers[] =
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";
constexpr char kMemory[] = "memory_mb = 0.7\n";

struct Trained {
  fs::path folder;
  std::string said;
};

Trained train(const TempFolder& folder, const std::string& name, const std::string& keys,
              const std::string& sections, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train", write_job(folder, name, keys, sections).string()});
  const Ended ended = run(more);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return {only_run(folder / name / "runs"), ended.errors};
}

std::vector<std::string> names_joined(const RecordedRun& recorded) {
  std::vector<std::string> names;
  for (const control::Fact& fact : recorded.facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) names.push_back(one->name);
  }
  return names;
}

std::vector<std::string> reasons_of_leaving(const RecordedRun& recorded) {
  std::vector<std::string> reasons;
  for (const control::Fact& fact : recorded.facts) {
    if (const auto* one = std::get_if<control::ReplicaLeft>(&fact.what)) reasons.push_back(one->why);
  }
  return reasons;
}

// The mean loss of the last `count` commits.
double last_losses(const RecordedRun& recorded, std::size_t count) {
  const auto losses = recorded.commit_losses();
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

// Other plans and shares make sums of the same samples in another order.
void expect_like_losses(const RecordedRun& recorded, const RecordedRun& expected) {
  const auto losses = recorded.commit_losses(), others = expected.commit_losses();
  ASSERT_EQ(losses.size(), others.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], others[i], 1e-2 * others[i]) << i;
}

// Planned from what the machine measures, so a busy one may cut elsewhere the second time.
TEST(PlannedPipeline, TakesAllDevicesAndTrainsAsInVirtualTime) {
  const TempFolder folder;
  const std::string keys = "parallel = \"pipeline\"\nmicro_batch = 3\nepochs = 0.3\n";
  const std::string sections = "[[device]]\ncount = 3\nbatch = 4\npace_ms = 8\n";
  const Trained live = train(folder, "live", keys, sections);
  EXPECT_THAT(live.said, testing::HasSubstr("plan: w0 "));
  EXPECT_THAT(live.said, testing::HasSubstr("12 samples, in micro-batches of 3"));
  EXPECT_THAT(read_text(live.folder / "job.toml"), testing::HasSubstr("pipeline"));
  const RecordedRun recorded = RecordedRun::read(live.folder);
  EXPECT_THAT(names_joined(recorded), testing::ElementsAre("w0+w1+w2"));
  expect_each_sample_once(recorded, 0.3);
  const Trained in_virtual_time = train(folder, "virtual", keys, sections, {"--virtual"});
  expect_like_losses(recorded, RecordedRun::read(in_virtual_time.folder));
}

// Five devices hold one of four units each, so two share a stage: the slow ones, whatever a busy machine
// measures. (Equal weights need equal plans.)
TEST(PlannedPipeline, SharesStagesWhereDevicesAreMoreThanUnits) {
  const TempFolder folder;
  const std::string keys = "parallel = \"pipeline\"\nmicro_batch = 2\nepochs = 0.3\n";
  const std::string sections =
      "[[device]]\ncount = 3\nbatch = 4\npace_ms = 20\nmemory_mb = 0.3\n"
      "[[device]]\ncount = 2\nbatch = 4\npace_ms = 40\nmemory_mb = 0.3\n" +
      std::string(kLayers);
  const Trained live = train(folder, "live", keys, sections);
  EXPECT_THAT(live.said, testing::ContainsRegex("plan: .*w3 \\+ w4 "));
  const RecordedRun recorded = RecordedRun::read(live.folder);
  expect_each_sample_once(recorded, 0.3);
  const Trained in_virtual_time = train(folder, "virtual", keys, sections, {"--virtual"});
  EXPECT_EQ(checkpoint_weights(in_virtual_time.folder), checkpoint_weights(live.folder));
  EXPECT_EQ(RecordedRun::read(in_virtual_time.folder).commit_losses(), recorded.commit_losses());
}

constexpr char kJoint[] = "parallel = \"joint\"\nmicro_batch = 2\n";

// No device holds all: two pipelines of two, whatever their order.
std::string four_devices(const std::string& more) {
  return "[[device]]\ncount = 4\nbatch = 8\npace_ms = 40\n" + std::string(kMemory) + more + kLayers;
}

TEST(Joint, PlansWithinMemoryLiveAndInVirtualTime) {
  const TempFolder folder;
  const std::string keys = std::string(kJoint) + "epochs = 0.5\n";
  const Trained live = train(folder, "live", keys, four_devices(""));
  EXPECT_THAT(live.said, testing::HasSubstr("plan: "));
  const RecordedRun recorded = RecordedRun::read(live.folder);
  expect_each_sample_once(recorded, 0.5);
  for (const std::string& name : names_joined(recorded))
    EXPECT_THAT(name, testing::HasSubstr("+")) << "no device holds the model alone";
  const Trained in_virtual_time = train(folder, "virtual", keys, four_devices(""), {"--virtual"});
  const RecordedRun virtually = RecordedRun::read(in_virtual_time.folder);
  expect_each_sample_once(virtually, 0.5);
  expect_like_losses(recorded, virtually);
  EXPECT_EQ(run({"replay", live.folder.string()}).status, 0);
}

TEST(Joint, SaysWhatMemoryIsMissing) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", kJoint, std::string("[[device]]\ncount = 2\nmemory_mb = 0.1\n") + kLayers);
  const Ended ended = run({"train", job.string()});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, testing::HasSubstr("parallel: no plan is possible: "));
}

TEST(Joint, IsPlannedAnewWhenADeviceBecomesSlow) {
  const TempFolder folder;
  const std::string keys = std::string(kJoint) + "epochs = 3\n";
  const Trained undisturbed = train(folder, "whole", keys, four_devices(""));
  const Trained disturbed =
      train(folder, "slow", keys, four_devices("[[change]]\ndevice = 1\nat_s = 1.5\nfactor = 4\n"));
  const RecordedRun recorded = RecordedRun::read(disturbed.folder);
  expect_each_sample_once(recorded, 3);
  EXPECT_THAT(reasons_of_leaving(recorded), testing::Contains(testing::StartsWith("re-planned: ")));
  EXPECT_THAT(disturbed.said, testing::HasSubstr("re-planned: "));
  EXPECT_NEAR(last_losses(recorded, 20), last_losses(RecordedRun::read(undisturbed.folder), 20), 0.25);
  EXPECT_EQ(run({"replay", disturbed.folder.string()}).status, 0);
}

// The lines that name a plan. How many lines of progress are between them depends on the machine's load.
std::vector<std::string> plans_said(const std::string& said) {
  std::vector<std::string> plans;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("plan: ") || line.find("  re-planned: ") != std::string::npos) plans.push_back(line);
  }
  return plans;
}

TEST(Joint, IsPlannedAnewInVirtualTimeToTheSameBytes) {
  const TempFolder folder;
  const std::string keys = std::string(kJoint) + "epochs = 3\n";
  const std::string sections = four_devices("[[change]]\ndevice = 1\nat_s = 1\nfactor = 4\n");
  const Trained first = train(folder, "first", keys, sections, {"--virtual"});
  const Trained again = train(folder, "again", keys, sections, {"--virtual"});
  EXPECT_THAT(first.said, testing::HasSubstr("re-planned: "));
  EXPECT_EQ(plans_said(first.said), plans_said(again.said));
  const RecordedRun recorded = RecordedRun::read(first.folder);
  expect_each_sample_once(recorded, 3);
  EXPECT_GE(recorded.plans.size(), 2u);
  EXPECT_LE(recorded.plans.size(), 4u);
  EXPECT_EQ(checkpoint_weights(first.folder), checkpoint_weights(again.folder));
  EXPECT_EQ(read_text(first.folder / "metrics.jsonl"), read_text(again.folder / "metrics.jsonl"));
  EXPECT_EQ(run({"replay", first.folder.string()}).status, 0);
}

// All devices are present, like in a live run; only a resumed run may begin without some.
TEST(Joint, UsesADeviceThatItsFirstPlanDoesWithoutInVirtualTime) {
  const TempFolder folder;
  const std::string sections =
      "[[device]]\ncount = 2\nbatch = 8\npace_ms = 40\n[[pipeline]]\ndevices = [\"w0\"]\nsamples = 16\n" +
      std::string(kLayers);
  const Trained all = train(folder, "run", std::string(kJoint) + "epochs = 6\n", sections, {"--virtual"});
  const RecordedRun recorded = RecordedRun::read(all.folder);
  expect_each_sample_once(recorded, 6);
  EXPECT_THAT(names_joined(recorded), testing::Contains(testing::HasSubstr("w1")));
  EXPECT_EQ(run({"replay", all.folder.string()}).status, 0);
}

// Two of four cost nothing; the other two become so dear that the budget is for a part of the time.
TEST(Joint, KeepsItsBudget) {
  const TempFolder folder;
  const std::string sections =
      "[budget]\nmost = 30\nper = \"hour\"\nv = 2\n[[device]]\ncount = 2\nbatch = 8\npace_ms = 40\n"
      "[[device]]\ncount = 2\nbatch = 8\npace_ms = 40\nprice_per_hour = 10\n"
      "[[change]]\ndevice = 2\nat_s = 1\nprice_per_hour = 60\n" +
      std::string(kLayers);
  const Trained all = train(folder, "run", std::string(kJoint) + "epochs = 8\n", sections, {"--virtual"});
  const RecordedRun recorded = RecordedRun::read(all.folder);
  expect_each_sample_once(recorded, 8);
  double cost = 0, allowed = 0;
  for (const control::BatchDone& batch : recorded.batches) {
    if (!batch.spending) continue;
    cost += batch.spending->cost;
    allowed += batch.spending->allowed;
  }
  EXPECT_GT(allowed, 0);
  EXPECT_LE(cost, 1.1 * allowed);
  EXPECT_THAT(all.said, testing::HasSubstr("re-planned: "));
  EXPECT_THAT(read_text(all.folder / "report.html"), testing::HasSubstr("\"spending\":["));
}

class JointKilled : public testing::TestWithParam<const char*> {};

TEST_P(JointKilled, IsPlannedAround) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string(kJoint) + "epochs = 4\n", four_devices(""));
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  kill(children(train.pid(), GetParam()).at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const RecordedRun recorded = RecordedRun::read(run_folder);
  expect_each_sample_once(recorded, 4);
  EXPECT_THAT(names_joined(recorded).back(), testing::Not(testing::HasSubstr(GetParam())));
  // Its replica may have been one that had not joined yet.
  const std::string log = read_text(run_folder / "logs" / "coordinator.log");
  EXPECT_THAT(log, testing::HasSubstr(std::string(GetParam()) + " left: its stream ended"));
  EXPECT_THAT(log, testing::HasSubstr("re-planned: "));
}

INSTANTIATE_TEST_SUITE_P(Stages, JointKilled, testing::Values("w0", "w3"));

// The numbers of the files of mapped gradients.
std::set<std::string> mapped_gradients(pid_t process) {
  std::istringstream maps(read_text(fmt::format("/proc/{}/maps", process)));
  std::set<std::string> files;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("paceline-gradient") == std::string::npos) continue;
    std::istringstream words(line);
    std::string addresses, rights, offset, device, file;
    words >> addresses >> rights >> offset >> device >> file;
    files.insert(file);
  }
  return files;
}

// The stage may go on with its pass at any time, and does not know the others' new roles until then.
TEST(Joint, AStageThatStandsStillCannotWriteToAnotherReplicasGradient) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string(kJoint) + "epochs = 200\n", four_devices(""));
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  const pid_t still = children(train.pid(), "w1").at(0);
  const auto shared_with_others = [&] {
    const auto its = mapped_gradients(still);
    for (const char* name : {"w0", "w2", "w3"}) {
      for (const std::string& file : mapped_gradients(children(train.pid(), name).at(0)))
        if (its.contains(file)) return true;
    }
    return false;
  };
  EXPECT_TRUE(shared_with_others());
  kill(still, SIGSTOP);
  const fs::path log = only_run(folder / "run" / "runs") / "logs" / "coordinator.log";
  ASSERT_TRUE(train.until([&] { return read_text(log).find("w1 left: silent for") != std::string::npos; }));
  EXPECT_TRUE(train.until([&] { return !shared_with_others(); }));
  const auto before = metrics_so_far(folder / "run" / "runs");
  EXPECT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") > before + 2; }));
  EXPECT_FALSE(shared_with_others());
  kill(still, SIGCONT);
  train.signal(SIGTERM);
  EXPECT_EQ(train.wait().status, 128 + SIGTERM);
}

// `asleep`: the run is over before its launcher has looked even once.
class JointWhoseLastDeviceCannotHoldTheModel : public testing::TestWithParam<bool> {};

TEST_P(JointWhoseLastDeviceCannotHoldTheModel, SaysSo) {
  const bool asleep = GetParam();
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string(kJoint) + "epochs = 20\n",
                                 "[[device]]\ncount = 2\npace_ms = 24\n" + std::string(kMemory) + kLayers);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return children(train.pid(), "evaluator").size() == 1; }));
  if (asleep) kill(train.pid(), SIGSTOP);
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  kill(children(train.pid(), "w1").at(0), SIGKILL);
  if (asleep) {
    EXPECT_TRUE(train.until([&] { return children(train.pid(), "coordinator").empty(); }));
  }
  kill(train.pid(), SIGCONT);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, testing::HasSubstr("w1 was lost (killed by signal 9 (Killed))\n"));
  EXPECT_THAT(ended.errors,
              testing::ContainsRegex(
                  "paceline: the devices that are left cannot go on: the model needs .* and the one "
                  "device has 0.7 MB: .* MB are missing; resume with: paceline train --resume "));
  EXPECT_FALSE(checkpoint_weights(only_run(folder / "run" / "runs")).empty());
}

INSTANTIATE_TEST_SUITE_P(Asleep, JointWhoseLastDeviceCannotHoldTheModel, testing::Bool());

TEST(Joint, TakesInADeviceThatComesBack) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string(kJoint) + "epochs = 200\n",
                                 "[[device]]\ncount = 3\nbatch = 8\npace_ms = 60\n" + std::string(kLayers));
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  const pid_t victim = children(train.pid(), "w1").at(0);
  const std::vector<std::string> worker = worker_beside(victim, "w1");
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const auto latest_plan = [&] {
    const std::string metrics = read_text(run_folder / "metrics.jsonl");
    const std::size_t at = metrics.rfind("{\"words\":");
    return metrics.substr(at, metrics.find('}', at) - at);
  };
  kill(victim, SIGKILL);
  EXPECT_TRUE(train.until([&] { return latest_plan().find("w1") == std::string::npos; }));
  Program again(worker);
  EXPECT_TRUE(again.until([&] { return latest_plan().find("w1") != std::string::npos; }));
  train.signal(SIGTERM);
  EXPECT_EQ(train.wait().status, 128 + SIGTERM);
  EXPECT_EQ(again.wait().status, 0);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// Four times slower for a few batches and back, over and over.
std::string flipping(double begin_s, double half_period_s, int times) {
  std::string changes;
  for (int i = 0; i < times; ++i) {
    const double from_s = begin_s + 2 * half_period_s * i;
    changes += fmt::format("[[change]]\ndevice = 1\nfactor = 4\nat_s = {}\nuntil_s = {}\n", from_s,
                           from_s + half_period_s);
  }
  return changes;
}

// `flips_a_plan`: how many flips there are at least for each plan.
void expect_no_chase(const RecordedRun& recorded, double flips_a_plan) {
  expect_each_sample_once(recorded, 6);
  const auto& last = recorded.commits.back().first;
  const double flips = (to_seconds(last) - 1.5) / 0.5;
  EXPECT_GE(flips, 10);
  EXPECT_LE(static_cast<double>(recorded.plans.size()) - 1, flips / flips_a_plan);
}

TEST(Joint, DoesNotChaseADeviceThatFlips) {
  const TempFolder folder;
  const Trained flipped =
      train(folder, "run", std::string(kJoint) + "epochs = 6\n", four_devices(flipping(1.5, 0.5, 30)));
  // Other work on the machine makes devices slower, too, so there may be more plans than in virtual time.
  expect_no_chase(RecordedRun::read(flipped.folder), 2);
}

TEST(Joint, DoesNotChaseADeviceThatFlipsInVirtualTime) {
  const TempFolder folder;
  const Trained flipped = train(folder, "run", std::string(kJoint) + "epochs = 6\n",
                                four_devices(flipping(1.5, 0.5, 30)), {"--virtual"});
  expect_no_chase(RecordedRun::read(flipped.folder), 4);
}

// The planner expects that of a live run.
TEST(Joint, AChangeOfPlansTakesATenthOfASecondInVirtualTime) {
  const TempFolder folder;
  const Trained slowed = train(folder, "run", std::string(kJoint) + "epochs = 3\n",
                               four_devices("[[change]]\ndevice = 1\nat_s = 1\nfactor = 4\n"), {"--virtual"});
  const RecordedRun recorded = RecordedRun::read(slowed.folder);
  expect_each_sample_once(recorded, 3);
  ASSERT_GE(recorded.plans.size(), 2u);
  for (std::size_t i = 1; i < recorded.plans.size(); ++i) {
    const Time at = recorded.plans[i].at;
    const auto joins =
        std::find_if(recorded.facts.begin(), recorded.facts.end(), [&](const control::Fact& fact) {
          return fact.at >= at && std::holds_alternative<control::ReplicaJoined>(fact.what);
        });
    ASSERT_NE(joins, recorded.facts.end());
    EXPECT_EQ(to_seconds(joins->at - at), 0.1);
  }
  EXPECT_EQ(run({"replay", slowed.folder.string()}).status, 0);
}

TEST(Joint, GoesOnWithItsLastPlanWhenItIsResumed) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string(kJoint) + "epochs = 40\n",
                                 four_devices("[[change]]\ndevice = 1\nat_s = 1\nfactor = 4\n"));
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  const fs::path run_folder = only_run(folder / "run" / "runs");
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "run" / "runs", "re_plans") > 0; }));
  train.signal(SIGTERM);
  EXPECT_EQ(train.wait().status, 128 + SIGTERM);
  const planner::Plan last = RecordedRun::read(run_folder).plans.back().plan;
  const double epochs =
      static_cast<double>(RecordedRun::read(run_folder).commits.size()) * 32 / kSmallJobSamples + 0.2;
  const Ended resumed =
      run({"train", "--resume", run_folder.string(), "--set", fmt::format("epochs={}", epochs)});
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(RecordedRun::read(run_folder, 2).plans.at(0).plan, last);
  EXPECT_THAT(resumed.output, testing::ContainsRegex("plan: .* re-plan"));
  EXPECT_THAT(resumed.output, testing::ContainsRegex("a batch: .* ms measured, .* predicted"));
  EXPECT_THAT(read_text(run_folder / "report.html"), testing::HasSubstr("\"re_plans\":"));
}

}  // namespace
}  // namespace paceline::tests
