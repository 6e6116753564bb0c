// Which ends of a run are right.
#include "paceline/simulation/cluster_sim/judge.h"

#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"

namespace paceline::cluster_sim {
namespace {

absl::Status failed(const std::string& why) { return absl::UnavailableError(why); }

// A good end on three hosts, led by the first.
RunEnd good() {
  RunEnd end;
  end.samples = 96;
  end.run = absl::OkStatus();
  end.launchers = {absl::OkStatus(), absl::OkStatus(), absl::OkStatus()};
  end.committed = end.samples;
  end.ever_trained = true;
  return end;
}

TEST(Judge, FindsNoFaultWithAGoodEnd) {
  EXPECT_FALSE(complaint_about(good()));
  RunEnd end = good();
  end.launchers[1].reset();  // this launcher was killed, and nobody started it again
  EXPECT_FALSE(complaint_about(end));
}

TEST(Judge, WantsAllSamples) {
  RunEnd end = good();
  end.committed = end.samples - 1;
  EXPECT_TRUE(complaint_about(end));
  end.committed.reset();
  EXPECT_TRUE(complaint_about(end));
  end.stopped = true;
  EXPECT_FALSE(complaint_about(end));
}

TEST(Judge, WantsNoFailureWithoutACause) {
  RunEnd end = good();
  end.run = end.launchers[0] = failed("server 0 died");
  EXPECT_TRUE(complaint_about(end));
  end.full_disks = true;
  EXPECT_FALSE(complaint_about(end));
  end.full_disks = false;
  end.nobody_can_lead = true;
  EXPECT_FALSE(complaint_about(end));
}

TEST(Judge, WantsTheStatusOfTheRun) {
  RunEnd end = good();
  end.full_disks = true;
  end.run = failed("the disk is full");
  EXPECT_TRUE(complaint_about(end)) << "exit status 0 of a run that failed";
  end.launchers[0] = end.run;
  EXPECT_FALSE(complaint_about(end));
  end.run = absl::OkStatus();
  EXPECT_TRUE(complaint_about(end)) << "exit status 2 of a run that is done";
  end.launchers[0] = failed("every replica lost a worker; the last one w1: killed");
  EXPECT_FALSE(complaint_about(end));
}

TEST(Judge, WantsTheReasonOfTheRunInOneLine) {
  RunEnd end = good();
  end.full_disks = true;
  end.run = failed("the disk is full");
  end.launchers[0] = failed("something is wrong");
  EXPECT_TRUE(complaint_about(end));
  end.run = end.launchers[0] = failed("the disk\nis full");
  EXPECT_TRUE(complaint_about(end));
  end.run = end.launchers[0] = failed("");
  EXPECT_TRUE(complaint_about(end));
}

TEST(Judge, KnowsWhoWasGivenUp) {
  RunEnd end = good();
  end.launchers[2] = with_exit_reason(failed("host 2 was given up"), ExitReason::kHostGivenUp);
  EXPECT_TRUE(complaint_about(end));
  end.given_up = {HostRank(2)};
  EXPECT_FALSE(complaint_about(end));
  end.given_up = {HostRank(1)};
  EXPECT_TRUE(complaint_about(end));
  end.launchers = {end.launchers[2]};  // one launcher has the processes of all hosts
  EXPECT_FALSE(complaint_about(end));
}

}  // namespace
}  // namespace paceline::cluster_sim
