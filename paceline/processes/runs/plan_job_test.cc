#include "paceline/processes/runs/plan_job.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/planning.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

using testing::HasSubstr;

constexpr char kJob[] =
    "parallel = \"joint\"\nmicro_batch = 2\n[[device]]\ncount = 2\nmemory_mb = 0.7\n"
    "[[layer]]\ncount = 4\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";

// Two devices, the first with so many of the four layers.
std::string job_cut_at(int layers) {
  return std::string(kJob) + "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\nsamples = 16\ncuts = [" +
         std::to_string(layers) + "]\n";
}

config::JobConfig planned_job(const std::string& toml) {
  auto job = config::parse_job(toml, "job.toml");
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

control::PlanAdopted adopted(const std::string& toml) {
  control::PlanAdopted adopted;
  adopted.plan = planned_job(toml).parallel.plan;
  return adopted;
}

class LastPlan : public ::testing::Test {
 protected:
  // An attempt as its coordinator records it.
  std::unique_ptr<store::Journal> attempt(const std::string& job) {
    auto journal = store::Journal::open(run_.journal(), Version(0));
    EXPECT_TRUE(journal.ok()) << journal.status();
    EXPECT_TRUE((*journal)->set(job_key((*journal)->attempt()), job).ok());
    (*journal)->on_order(Time{}, adopted(job));
    return *std::move(journal);
  }

  std::string settings(const std::string& job) {
    const auto last = last_plan(planned_job(job), run_);
    EXPECT_TRUE(last.ok()) << last.status();
    std::string text = kJob;
    const auto resolved = config::resolve_job(text, "job.toml", last.value_or(std::vector<std::string>{}));
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return *resolved;
  }

  store::TestDirectory folder_;
  store::RunPaths run_{folder_.path()};
};

TEST_F(LastPlan, IsTheOneThatWasAdoptedLast) {
  const std::string first = job_cut_at(3);
  attempt(first)->on_order(Time(Duration(5)), adopted(job_cut_at(1)));
  const config::JobConfig next = planned_job(settings(first));
  EXPECT_EQ(next.parallel.plan, planned_job(job_cut_at(1)).parallel.plan);
  EXPECT_EQ(next.devices[0].memory_mb, 0.7);
}

TEST_F(LastPlan, TheQueueOfTheBudgetIsTheOneOfTheLastBatch) {
  const std::string job = job_cut_at(3) + "[budget]\nmost = 36\nper = \"hour\"\nqueue = 1.5\n";
  const auto batch = [](double queue) {
    return control::BatchDone{Time{}, 1, 1, true, {}, control::Spending{1, 1, queue}};
  };
  const auto settings = [&] { return last_plan(planned_job(job), run_).value(); };
  attempt(job);
  EXPECT_THAT(settings(), testing::Contains("budget.queue=1.5"));
  {
    const auto journal = attempt(job);
    journal->on_order(Time{}, batch(4));
    journal->on_order(Time{}, batch(2.5));
  }
  attempt(job);  // an attempt that ended before its first batch
  EXPECT_THAT(settings(), testing::Contains("budget.queue=2.5"));
}

TEST_F(LastPlan, DevicesKeepTheMemoryThatTheyTurnedOutToHave) {
  const std::string first = job_cut_at(3);
  {
    const auto journal = attempt(first);
    journal->on_fact({Time(Duration(5)), control::DeviceOutOfMemory{0}});
    journal->on_order(Time(Duration(6)), adopted(job_cut_at(2)));
  }
  const std::string second = settings(first);
  const config::JobConfig next = planned_job(second);
  EXPECT_EQ(next.parallel.plan, planned_job(job_cut_at(2)).parallel.plan);
  EXPECT_LT(*next.devices[0].memory_mb, 0.7);
  EXPECT_GT(*next.devices[0].memory_mb, 0.4);
  EXPECT_EQ(next.devices[1].memory_mb, 0.7);
  EXPECT_TRUE(config::replanner_options(next, config::RunTime::kWall).has_value());
  // An attempt that knew this, and learnt more.
  attempt(second)->on_fact({Time(Duration(5)), control::DeviceOutOfMemory{1}});
  const config::JobConfig third = planned_job(settings(first));
  EXPECT_EQ(third.devices[0].memory_mb, next.devices[0].memory_mb);
  EXPECT_LT(*third.devices[1].memory_mb, 0.7);
}

TEST_F(LastPlan, TheMemoryIsThatOfTheStageInUse) {
  const std::string first = job_cut_at(3);
  {
    const auto journal = attempt(first);
    journal->on_order(Time(Duration(5)), adopted(job_cut_at(2)));
    journal->on_fact({Time(Duration(6)), control::DeviceOutOfMemory{0}});
    journal->on_order(Time(Duration(7)), adopted(job_cut_at(1)));
  }
  EXPECT_LT(*planned_job(settings(first)).devices[0].memory_mb, 0.4) << "two layers need 0.4 MB and more";
}

// The attempt ended before it had another plan.
TEST_F(LastPlan, IsMadeAnewIfTheDevicesHaveNoRoomForIt) {
  const std::string first = job_cut_at(3);
  attempt(first)->on_fact({Time(Duration(5)), control::DeviceOutOfMemory{0}});
  const std::string second = settings(first);
  EXPECT_TRUE(planned_job(second).parallel.to_be_planned);
  const auto planned = plan_job(second, config::RunTime::kWall);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_THAT(planned->line, HasSubstr("a little less than what had no room there earlier in this run"));
  for (const planner::PlannedReplica& replica : planned_job(planned->job_toml).parallel.plan.replicas) {
    for (const planner::PlannedStage& stage : planner::stages_of(replica, 4)) {
      if (replica.devices[stage.first] == 0) {
        EXPECT_LT(stage.end - stage.begin, 3);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::runs
