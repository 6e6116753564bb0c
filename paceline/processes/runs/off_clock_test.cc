#include "paceline/processes/runs/off_clock.h"

#include <gtest/gtest.h>

namespace paceline::runs {
namespace {

TEST(OffClock, IsWhatTheJobsClockDidNotSee) {
  // Two seconds to start. The run is killed at 10 s of the job, and goes on 30 s later from its state at 6 s.
  const OffClock off = off_clock({{"opened_1", "1000000000000"},
                                  {"released_1", "1002000000000 0"},
                                  {"opened_2", "1037000000000"},
                                  {"released_2", "1042000000000 6000000000"}},
                                 2);
  EXPECT_EQ(off.starting, std::chrono::seconds(2));
  EXPECT_EQ(off.recovering, std::chrono::seconds(40 - 6));
}

TEST(OffClock, HasNoRecoveryWithASingleAttempt) {
  const OffClock off = off_clock({{"opened_1", "5"}, {"released_1", "7 0"}}, 1);
  EXPECT_EQ(off.starting, Duration(2));
  EXPECT_EQ(off.recovering, Duration::zero());
}

TEST(OffClock, AnAttemptThatReleasedNobodyCountsAsTimeBetween) {
  const OffClock off = off_clock({{"opened_1", "0"},
                                  {"released_1", "10 0"},
                                  {"opened_2", "50"},
                                  {"opened_3", "70"},
                                  {"released_3", "100 30"}},
                                 3);
  EXPECT_EQ(off.recovering, Duration(60));
}

TEST(OffClock, IgnoresValuesThatMakeNoSense) {
  for (const char* words : {"", "x", "1", "1 x", "9223372036854775807 0", "-5 0", "3 9223372036854775807"}) {
    const OffClock off = off_clock({{"opened_1", "9"}, {"released_1", "8 0"}, {"released_2", words}}, 2);
    EXPECT_EQ(off.starting, Duration::zero()) << "the clock was set back";
    EXPECT_EQ(off.recovering, Duration::zero()) << words;
  }
}

TEST(OffClock, TheLastAttemptThatReleasedAnybodyDatesTheRun) {
  const std::map<std::string, std::string> about{
      {"released_1", "5000000000 0"}, {"released_2", "90000000000 30000000000"}, {"opened_3", "9"}};
  EXPECT_DOUBLE_EQ(last_first_release(about, 3)->began_s(), 60);
  EXPECT_DOUBLE_EQ(last_first_release(about, 1)->began_s(), 5);
  EXPECT_FALSE(last_first_release({{"opened_1", "5"}}, 1));
  EXPECT_FALSE(first_release({{"released_1", "no number"}}, 1));
}

}  // namespace
}  // namespace paceline::runs
