// The decisions of a host's launcher that the texts in testdata/ do not tell.
#include "paceline/decisions/supervisor/supervisor.h"

#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/supervisor/testing/launcher_world.h"

namespace paceline::supervisor {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty, testing::StartsWith;

class SupervisorTest : public testing::Test, protected LauncherWorld {};

// The coordinator is killed before it can listen: if the run has trained before, it is started again five
// times.
TEST_F(SupervisorTest, ARunThatComesBackStartsAKilledCoordinatorAgain) {
  int left = 3;
  starting_ = [&](const std::string& name) {
    return name == "coordinator" && left-- > 0 ? absl::UnavailableError("killed") : absl::OkStatus();
  };
  killed_at_start_ = true;
  SupervisorOptions resumed = options();
  resumed.resumes = true;
  begin(resumed);
  EXPECT_EQ(outcome(), "none");
  EXPECT_EQ(left, -1);
  left = 100;
  begin(resumed);
  EXPECT_EQ(outcome(), "killed");
  EXPECT_EQ(left, 100 - 1 - Restarts::kMost);
  left = 100;
  begin(options());
  EXPECT_EQ(outcome(), "killed") << "a new run gives up at once";
  EXPECT_EQ(left, 99);
}

TEST_F(SupervisorTest, ACoordinatorThatIsKilledAfterItSaidThatTheRunFailedIsNotStartedAgain) {
  begin_to_train();
  ends("server0", said(ExitReason::kRunFailed, "the disk is full"));
  coordinator_ends(killed());
  EXPECT_THAT(take_done(), IsEmpty());
  EXPECT_EQ(outcome(), "the disk is full");
}

// A program may save its model after the job. The file should be whole.
TEST_F(SupervisorTest, ProgramsMayGoOnAfterTheJob) {
  begin_to_train();
  coordinator_ends(done());
  pass(milliseconds(1900));
  EXPECT_EQ(outcome(), "none");
  EXPECT_TRUE(supervisor_->ending());
  EXPECT_THAT(take_done(), ElementsAre("end waiting"));
  pass();
  pass();
  EXPECT_THAT(take_done(),
              ElementsAre("the job is over; waiting for what the program does after it in w0, w1, "
                          "evaluator (Ctrl-C ends it)"));
  ends("w1", said(ExitReason::kDone, "train.py: exit status 1"));
  ends("w0", said(ExitReason::kDone, "train.py: exit status 2"));
  pass();
  EXPECT_EQ(outcome(), "none");
  ends("evaluator", done());
  pass();
  EXPECT_EQ(outcome(), "OK");
  EXPECT_EQ(supervisor_->after().message(),
            "w1: train.py: exit status 1; logs/w1.log says more, and nothing of the run is lost");
  EXPECT_FALSE(supervisor_->ending());
  EXPECT_THAT(take_done(), IsEmpty()) << "nothing is started again, and nobody is lost";
}

TEST_F(SupervisorTest, AWorkerThatStandsStillAfterTheJobIsWaitedForWithinTheLimit) {
  for (const double limit_s : {30, 0}) {
    SupervisorOptions limited = options();
    limited.after_limit_s = limit_s;
    begin_to_train(limited);
    coordinator_ends(done());
    ends("evaluator", done());
    pass(seconds(39));
    EXPECT_EQ(outcome(), "none");
    pass(seconds(1));
    EXPECT_EQ(outcome(), limit_s > 0 ? "OK" : "none");
  }
}

TEST_F(SupervisorTest, AStopAfterTheJobIsOneAtOnce) {
  for (const bool kills : {false, true}) {
    begin_to_train();
    coordinator_ends(done());
    pass();
    if (kills) happens(KillWanted{});
    if (!kills) happens(StopWanted{"interrupted"});
    EXPECT_THAT(take_done(),
                ElementsAre("end waiting", "kill server0", "kill w0", "kill w1", "kill evaluator"));
    EXPECT_EQ(outcome(), "OK");
  }
}

TEST_F(SupervisorTest, AServerThatIsMissedWhileTheRunTrainsIsKilled) {
  begin_to_train();
  for (int i = 0; i < 9; ++i) {
    answer(1, true, {"server0", "w1"});
    pass(seconds(1));
  }
  EXPECT_THAT(take_done(), IsEmpty());
  answer(1, true);
  pass(seconds(2));
  for (int i = 0; i < 12; ++i) {
    answer(1, true, {"server0", "w1"});
    pass(seconds(1));
  }
  EXPECT_THAT(take_done(),
              ElementsAre("kill server0", "server0 did not come and is started again", "start server0"));
}

// The process may have come meanwhile, or the run is over: then a server has to wait for long enough to end.
TEST_F(SupervisorTest, ACoordinatorThatDoesNotAnswerMissesNobody) {
  begin_to_train();
  answer(1, true, {"server0"});
  pass(seconds(1));
  for (int i = 0; i < 30; ++i) {
    happens(NotAnswered{true});
    pass(seconds(1));
  }
  EXPECT_THAT(take_done(), IsEmpty());
  answer(1, true, {"server0"});
  pass(seconds(9));
  EXPECT_THAT(take_done(), IsEmpty()) << "the time of the silence does not count";
}

TEST_F(SupervisorTest, AServerThatCannotStartAgainEndsTheRun) {
  begin_to_train();
  for (int kill = 0; kill < 10; ++kill) ends("server0", killed());
  const ProcessEnd expired = said(ExitReason::kOwnError, "the certificate has expired");
  for (int i = 0; i < 2; ++i) ends("server0", expired);
  ends("server0", killed());
  for (int i = 0; i < 2; ++i) ends("server0", expired);
  pass(seconds(11));
  ends("server0", expired);
  EXPECT_THAT(take_done(), testing::Not(testing::Contains(StartsWith("ask to stop"))));
  for (int i = 0; i < 3; ++i) ends("server0", expired);
  EXPECT_THAT(take_done(), testing::Contains("ask to stop: a process could not start"));
  coordinator_ends(done(), std::nullopt, true);
  EXPECT_EQ(outcome(), "the certificate has expired");
}

TEST_F(SupervisorTest, AnEvaluatorIsStartedAgainUnlessItEndedByItself) {
  begin_to_train();
  ends("evaluator", killed(), Version(1));
  EXPECT_THAT(take_done(), ElementsAre(HasSubstr("it is started again"), "start evaluator"));
  ends("evaluator", said(ExitReason::kOwnError, "no test data"), Version(1));
  EXPECT_THAT(take_done(),
              ElementsAre("evaluator was lost (no test data); training goes on without evaluations"));
  begin_to_train();
  for (int i = 0; i < Restarts::kMost; ++i) ends("evaluator", killed(), Version(1));
  take_done();
  ends("evaluator", killed(), Version(1));
  EXPECT_THAT(take_done(), ElementsAre(HasSubstr("training goes on without evaluations")));
}

TEST_F(SupervisorTest, TellsNothingOfProcessesThatEndInOrder) {
  begin_to_train();
  ends("w0", done());
  ends("w1", said(ExitReason::kPlaceTaken, "somebody has this place"));
  EXPECT_THAT(take_done(), IsEmpty());
  EXPECT_FALSE(supervisor_->logs_say_more());
  ends("server0",
       {ExitReason::kUnsaid, false, false, "exit status 3", absl::UnavailableError("exit status 3")});
  EXPECT_TRUE(supervisor_->logs_say_more());
}

TEST_F(SupervisorTest, AProcessThatCannotStartEndsANewRun) {
  begin(options());
  answer(1, false);
  ends("w0", said(ExitReason::kOwnError, "/data: no such file"));
  EXPECT_THAT(take_done(), testing::Contains("ask to stop: a process could not start"));
  ends("w1", said(ExitReason::kOwnError, "a later error"));
  coordinator_ends(done(), std::nullopt, false);
  EXPECT_EQ(outcome(), "/data: no such file");
  EXPECT_TRUE(absl::IsInvalidArgument(*supervisor_->outcome())) << "of what it was given";
}

// A memory limit may kill it: nothing in the job is wrong.
TEST_F(SupervisorTest, AProcessThatIsKilledAtTheStartIsNoErrorOfTheJob) {
  begin(options());
  answer(1, false);
  ends("w0", killed());
  coordinator_ends(done(), std::nullopt, false);
  EXPECT_TRUE(absl::IsUnavailable(*supervisor_->outcome()));
}

TEST_F(SupervisorTest, ALostWorkerThatWasAloneLeavesNoOthers) {
  SupervisorOptions alone = options();
  alone.replicas.resize(1);
  begin(alone);
  answer(1, true);
  take_done();
  ends("w0", killed());
  EXPECT_THAT(take_done(),
              ElementsAre("w0 was lost (killed by signal 9 (Killed)); no replica is left to train on its "
                          "samples, so the run stops"));
}

// In a run that has trained before, it is started again, up to five times without a new checkpoint.
TEST_F(SupervisorTest, AProcessThatIsKilledWhileTheRunComesBackIsStartedAgain) {
  SupervisorOptions resumed = options();
  resumed.resumes = true;
  begin(resumed);
  answer(2, false);
  take_done();
  for (int i = 0; i < Restarts::kMost; ++i) {
    ends("w0", killed(), Version(3), true);
    EXPECT_THAT(take_done(), ElementsAre(HasSubstr("it is started again"), "start w0"));
  }
  ends("w0", killed(), Version(3));
  EXPECT_THAT(take_done(), ElementsAre("ask to stop: a process could not start"));
}

// After a power cut all hosts start, one after the other. If the coordinator alone is lost, they are here.
TEST_F(SupervisorTest, TheCoordinatorHearsThatHostsAreStartingIfItsLauncherIs) {
  SupervisorOptions resumed = options();
  resumed.resumes = resumed.again = true;
  begin(resumed);
  EXPECT_EQ(take_done().front(), "start coordinator again, other hosts may be starting");
  answer(2, true);
  coordinator_ends(killed(), Version(3));
  EXPECT_THAT(take_done(), ElementsAre(HasSubstr("the coordinator was lost"), "start coordinator again"));
}

// If a process whose coordinator died hangs or does not find its way, the next coordinator misses it.
TEST_F(SupervisorTest, StartsAgainWhoDoesNotCome) {
  begin_to_train();
  coordinator_ends(killed(), Version(40));
  answer(2, false, {"w1"});
  pass();
  take_done();
  pass(seconds(9));
  answer(2, false, {"w1"});
  EXPECT_THAT(take_done(), IsEmpty());
  pass(seconds(1));
  answer(2, false, {"w1"});
  pass();
  EXPECT_THAT(take_done(), ElementsAre("kill w1", "w1 did not come and is started again", "start w1"));
  pass(seconds(60));
  EXPECT_THAT(take_done(), IsEmpty()) << "it was started for this attempt, and may take its time";
  begin_to_train();
  coordinator_ends(killed(), Version(40));
  answer(2, false, {"w1"});
  pass();
  answer(2, false, {});
  pass(seconds(9));
  answer(2, false, {"w1"});
  take_done();
  pass(seconds(9));
  EXPECT_THAT(take_done(), IsEmpty()) << "it came in between";
}

// The members come while the launcher stands still, for example after Ctrl-Z.
TEST_F(SupervisorTest, AnAnswerFromBeforeItStoodStillKillsNobody) {
  begin_to_train();
  coordinator_ends(killed(), Version(40));
  answer(2, false, {"server0", "w1"});
  pass();
  take_done();
  pass(seconds(60));
  EXPECT_THAT(take_done(), IsEmpty());
  answer(2, true);
  pass(seconds(60));
  EXPECT_THAT(take_done(), IsEmpty());
}

// The process was started at once, and came before the coordinator noticed the end of its predecessor.
TEST_F(SupervisorTest, StartsAgainWhoWasSentAwayAndIsMissedThen) {
  begin_to_train();
  ends("server0", killed());
  answer(2, false, {"server0"});
  pass();
  ends("server0", said(ExitReason::kPlaceTaken, "server 0 is here already"));
  pass();
  take_done();
  pass(seconds(9));
  answer(2, false, {"server0"});
  EXPECT_THAT(take_done(), IsEmpty());
  pass(seconds(1));
  answer(2, false, {"server0"});
  pass();
  EXPECT_THAT(take_done(), ElementsAre("server0 did not come and is started again", "start server0"));
}

TEST_F(SupervisorTest, OtherHostsHearWhyTheFirstOneCannotStart) {
  SupervisorOptions first = options();
  first.replicas.clear();
  begin(first);
  take_done();
  ends("w1", said(ExitReason::kOwnError, "no such data"));
  EXPECT_THAT(take_done(), ElementsAre("ask to stop: a process could not start, host 0: no such data"));
}

TEST_F(SupervisorTest, SaysWhoseInterruptionStoppedTheRun) {
  begin_to_train();
  happens(StopWanted{"interrupted", StopCause::kShutDown});
  EXPECT_THAT(take_done(), ElementsAre("ask to stop: interrupted with its host"));
  begin_to_train();
  ends("w0", done());
  coordinator_ends(interrupted("host 1 was interrupted"));
  for (const char* name : {"server0", "w1", "evaluator"}) ends(name, interrupted("host 1 was interrupted"));
  pass();
  EXPECT_EQ(outcome(), "OK");
  EXPECT_EQ(supervisor_->interrupted(), "host 1 was interrupted");
  EXPECT_FALSE(supervisor_->stopping());
}

// ---- A coordinator on another host ----

class OtherHost : public SupervisorTest {
 protected:
  void begin_elsewhere(bool trains = true) {
    SupervisorOptions other{.members = kMembers};
    other.leads = false;
    other.evaluates = true;
    other.host = HostRank(1);
    other.patience_s = 10;
    other.leader = "10.0.0.1:1";
    begin(other);
    answer(1, trains);
    pass();
    done_.clear();
    folder_ = {{{HostRank(0), "10.0.0.1:1"}}, false, false};
    happens(NotAnswered{true});
  }
  // A new run, which has not begun: nobody has answered yet.
  void begin_before_the_run(bool beside = false) {
    SupervisorOptions other{.members = kMembers};
    other.leads = false;
    other.beside = beside;
    other.host = HostRank(1);
    other.patience_s = 10;
    other.leader = "10.0.0.1:1";
    begin(other);
    happens(NotAnswered{true});
    done_.clear();
  }
  static constexpr char kSilent[] =
      "the host that leads the run does not answer at 10.0.0.1:1 any more; waiting at most 84 s. Is "
      "`paceline node` still running there?";
};

TEST_F(OtherHost, AStopThatComesWhenTheJobIsDoneDoesNotEndItEarly) {
  begin_elsewhere();
  answer(1, true);
  happens(StopWanted{"host 1 was interrupted", StopCause::kShutDown});
  EXPECT_TRUE(supervisor_->stopped_early()) << "nobody knows better yet";
  for (const char* name : {"w0", "w1", "server0"}) ends(name, done());
  pass();
  EXPECT_EQ(outcome(), "OK");
  EXPECT_FALSE(supervisor_->stopped_early());
}

TEST_F(OtherHost, AStopThatIsHeardEndsTheJobEarly) {
  begin_elsewhere();
  answer(1, true);
  happens(StopWanted{"host 1 was interrupted", StopCause::kShutDown});
  ends("w0", done());
  for (const char* name : {"w1", "server0"}) ends(name, interrupted("host 1 was interrupted"));
  pass();
  EXPECT_EQ(outcome(), "OK");
  EXPECT_TRUE(supervisor_->stopped_early());
}

TEST_F(OtherHost, AStopThatNobodyHearsEndsTheJobEarly) {
  begin_before_the_run();
  answer(1, false);
  happens(StopWanted{"host 1 was interrupted", StopCause::kShutDown});
  happens(NotAnswered{true});
  for (int i = 0; i < 2; ++i) pass(seconds(1));
  EXPECT_EQ(outcome(), "OK");
  EXPECT_TRUE(supervisor_->stopped_early());
}

TEST_F(OtherHost, StartsNoEvaluatorIfTheRunHasNone) {
  begin_elsewhere();
  runs_job_evaluates_ = false;
  pass(seconds(12));
  EXPECT_THAT(take_done(), ElementsAre(kSilent, "follow this host", "start coordinator again without 0",
                                       "host 0 did not come back; this one leads the run"));
}

// The coordinator has ended with the job. This host does not lead the run again while it waits for its
// programs.
TEST_F(OtherHost, WaitsForWhatItsProgramsDoAfterTheJob) {
  begin_elsewhere();
  ends("w0", done());
  pass(seconds(3));
  EXPECT_TRUE(supervisor_->ending());
  EXPECT_THAT(take_done(), ElementsAre("end waiting",
                                       "the job is over; waiting for what the program does after it in w1 "
                                       "(Ctrl-C ends it)"));
  ends("server0", done());
  pass(seconds(100));
  EXPECT_THAT(take_done(), IsEmpty());
  EXPECT_EQ(outcome(), "none");
  ends("w1", done());
  pass();
  EXPECT_EQ(outcome(), "OK");
  EXPECT_FALSE(supervisor_->stopping());
}

TEST_F(OtherHost, SaysWhyAProcessOfItsOwnCouldNotStart) {
  SupervisorOptions other{.members = kMembers};
  other.leads = false;
  other.host = HostRank(1);
  begin(other);
  take_done();
  ends("w1", said(ExitReason::kOwnError, "no such data"));
  EXPECT_THAT(take_done(), testing::Contains("ask to stop: a process could not start, host 1: no such data"));
  for (const char* const name : {"w0", "server0"}) ends(name, done());
  pass();
  EXPECT_EQ(outcome(), "no such data");
}

TEST_F(OtherHost, TheCommandBesideTheOneThatLeadsSaysNothing) {
  begin_before_the_run(true);
  pass(seconds(100));
  EXPECT_THAT(take_done(), IsEmpty());
}

TEST_F(OtherHost, EndsIfStoppedBeforeTheRunWhenTheFirstHostIsGone) {
  begin_before_the_run();
  answer(1, false);
  happens(StopWanted{"interrupted"});
  pass();
  EXPECT_THAT(take_done(), ElementsAre("ask to stop: interrupted", "ask to stop: interrupted"));
  happens(NotAnswered{true});
  pass(seconds(1));
  EXPECT_EQ(outcome(), "none") << "its members may still hear how the run ends";
  pass(seconds(1));
  EXPECT_EQ(outcome(), "OK");
  EXPECT_THAT(take_done(), testing::Contains("kill w1"));
}

TEST_F(OtherHost, SaysThatTheFirstHostIsGoneBeforeTheRunAndEndsInTheEnd) {
  begin_before_the_run();
  answer(1, false);
  pass();
  happens(NotAnswered{true});
  pass(seconds(5));
  EXPECT_THAT(take_done(),
              ElementsAre("the first host does not answer at 10.0.0.1:1 any more; waiting at most 84 s. Is "
                          "`paceline node` still running there? If it has ended, it says why there; start it "
                          "again, or end this host too"));
  answer(1, false);
  pass(seconds(200));
  EXPECT_EQ(outcome(), "none") << "it is back";
  take_done();
  happens(NotAnswered{true});
  pass(seconds(83));
  EXPECT_THAT(take_done(), ElementsAre(StartsWith("the first host does not answer")))
      << "each silence is told";
  EXPECT_EQ(outcome(), "none");
  pass(seconds(1));
  EXPECT_THAT(outcome(), StartsWith("the first host did not answer at 10.0.0.1:1 any more before the run "
                                    "began; waited for 84 s"));
}

TEST_F(OtherHost, EndsIfItCannotStartAndNobodyHearsIt) {
  begin_before_the_run();
  ends("w1", said(ExitReason::kOwnError, "no such data"));
  EXPECT_THAT(take_done(), testing::Contains("no such data; waiting at most 30 s for the first host, to tell "
                                             "it"));
  pass(seconds(29));
  EXPECT_EQ(outcome(), "none");
  pass(seconds(1));
  EXPECT_EQ(outcome(), "no such data");
  begin_before_the_run();
  answer(1, false);
  pass(seconds(60));
  happens(NotAnswered{true});
  ends("w1", said(ExitReason::kOwnError, "no such data"));
  pass(seconds(2));
  EXPECT_EQ(outcome(), "no such data");
}

TEST_F(OtherHost, OnePlaceThatIsTakenIsNoSecondHostOfThisRank) {
  begin_elsewhere();
  ends("server0", said(ExitReason::kPlaceTaken, "server 0 is here already"));
  for (const char* const name : {"w0", "w1"}) ends(name, killed());
  pass();
  EXPECT_EQ(outcome(), "OK");
}

TEST_F(OtherHost, EndsAtOnceWhereItIsStoppedAfterTheJob) {
  begin_elsewhere();
  ends("server0", done());
  happens(StopWanted{"interrupted"});
  EXPECT_THAT(take_done(), ElementsAre("end waiting", "kill w0", "kill w1"));
  EXPECT_EQ(outcome(), "OK");
  EXPECT_FALSE(supervisor_->stopping());
}

// The process may have been stopped by a signal: the coordinator was there all the time.
TEST_F(OtherHost, AsksAgainBeforeItLeadsWhenItHasStoodStill) {
  begin_elsewhere();
  answer(1, true);
  pass(seconds(100));
  EXPECT_THAT(take_done(), IsEmpty());
  answer(1, true);
  pass(seconds(100));
  happens(NotAnswered{true});  // the coordinator may be slow to answer
  pass();
  EXPECT_THAT(take_done(), IsEmpty());
  pass(seconds(11));
  EXPECT_FALSE(supervisor_->leads());
  pass(seconds(1));
  EXPECT_TRUE(supervisor_->leads());
}

// The process comes back to a run that nobody leads yet.
TEST_F(OtherHost, AProcessThatIsKilledWhileItWaitsForALeaderIsStartedAgain) {
  SupervisorOptions other{.members = kMembers};
  other.leads = false;
  other.run = "run";
  begin(other);
  take_done();
  ends("w1", killed());
  EXPECT_THAT(take_done(), testing::Contains("start w1"));
  EXPECT_EQ(outcome(), "none");
}

TEST_F(OtherHost, EndsWhereItsProcessesSawTheEndUnderAnotherLeader) {
  begin_elsewhere();
  pass(seconds(12));
  ASSERT_TRUE(supervisor_->leads());
  answer(2, false);
  pass();
  take_done();
  for (const char* name : {"server0", "w0", "w1"}) ends(name, done());
  pass(seconds(1));
  EXPECT_EQ(outcome(), "none") << "this coordinator may end as well";
  pass(seconds(10));
  EXPECT_THAT(take_done(),
              ElementsAre("another host has led the run to its end", "kill coordinator", "kill evaluator"));
  EXPECT_EQ(outcome(), "OK");
  EXPECT_TRUE(supervisor_->heard_of_end());
}

// The network held the word of the leader before back, and this host has taken its place meanwhile.
TEST_F(OtherHost, AProcessThatHeardOfTheFailureOfTheLeaderBeforeTrainingBeganIsStartedAgain) {
  begin_elsewhere(false);
  pass(seconds(12));
  ASSERT_TRUE(supervisor_->leads());
  ends("w1", said(ExitReason::kRunFailed, "server 1 was silent"));
  take_done();
  for (int i = 0; i < 12; ++i) {
    answer(2, false, {"w1"});
    pass(seconds(1));
  }
  EXPECT_THAT(take_done(), ElementsAre("w1 did not come and is started again", "start w1"));
}

TEST_F(OtherHost, AProcessThatHeardOfTheFailureOfTheLeaderBeforeIsStartedAgain) {
  begin_elsewhere();
  pass(seconds(12));
  ASSERT_TRUE(supervisor_->leads());
  for (const char* name : {"w0", "w1"}) ends(name, said(ExitReason::kRunFailed, "the disk is full"));
  take_done();
  for (int i = 0; i < 12; ++i) {
    answer(2, false, {"w0", "w1"});
    pass(seconds(1));
  }
  EXPECT_THAT(take_done(), ElementsAre("w0 did not come and is started again", "start w0",
                                       "w1 did not come and is started again", "start w1"));
  answer(2, true);
  coordinator_ends(killed(), Version(1));
  EXPECT_EQ(outcome(), "none") << "this coordinator did not say that the run failed";
}

// The coordinator has ended, and a program here takes its time to end. The folder does not say how the run ended.
TEST_F(OtherHost, ARunThatFailedIsNoSuccessWhileAProgramStillEnds) {
  begin_elsewhere();
  folder_ = {{{HostRank(0), "10.0.0.1:1"}}, false, true};
  for (const char* name : {"server0", "w0"}) ends(name, said(ExitReason::kRunFailed, "the disk is full"));
  for (int i = 0; i < 20; ++i) pass(seconds(1));
  EXPECT_EQ(outcome(), "none");
  ends("w1", said(ExitReason::kRunFailed, "the disk is full"));
  pass();
  EXPECT_EQ(outcome(), "the disk is full");
}

// The processes may hear of the failure before this host hears of the attempt that failed.
TEST_F(OtherHost, StartsNoProcessForAnAttemptThatFailed) {
  begin_elsewhere();
  ends("server0", said(ExitReason::kRunFailed, "the shards differ"));
  answer(2, false, {"server0"});
  pass(seconds(15));
  EXPECT_THAT(take_done(), IsEmpty());
  for (const char* name : {"w0", "w1"}) ends(name, said(ExitReason::kRunFailed, "the shards differ"));
  pass();
  EXPECT_EQ(outcome(), "the shards differ");
}

TEST_F(OtherHost, AtOnceAllOfItsProcessesDie) {
  begin_elsewhere();
  happens(KillWanted{});
  EXPECT_THAT(take_done(), ElementsAre("kill server0", "kill w0", "kill w1"));
  pass();
  EXPECT_EQ(outcome(), "OK");
}

// In a random order of events no process is started twice, and nothing is started after the end.
TEST(SupervisorRandom, NoProcessIsStartedThatIsHere) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    std::uint32_t state = seed * 2654435761U + 1;
    const auto below = [&](std::uint32_t most) {
      state = state * 1664525U + 1013904223U;
      return (state >> 8) % most;
    };
    SupervisorOptions some = options();
    some.leads = below(3) > 0;
    some.resumes = below(2) > 0;
    some.host = HostRank(some.leads ? 0 : 1);
    some.patience_s = 5;
    Supervisor::SteadyTime now{std::chrono::hours(1)};
    Supervisor supervisor(some, now);
    std::set<std::string> here;
    const std::function<void(decltype(Event::what))> happens = [&](decltype(Event::what) what) {
      for (const Action& action : supervisor.take({now, std::move(what)})) {
        if (const auto* start = std::get_if<StartMember>(&action)) {
          ASSERT_TRUE(here.insert(start->name).second) << "seed " << seed << ": " << start->name;
          const bool fails = below(40) == 0;
          if (fails) here.erase(start->name);
          happens(
              MemberStarted{start->name, fails ? absl::ResourceExhaustedError("full") : absl::OkStatus()});
        } else if (const auto* kill = std::get_if<KillMember>(&action)) {
          ASSERT_EQ(here.erase(kill->name), 1u) << "seed " << seed;
        } else if (std::holds_alternative<StartCoordinator>(action)) {
          ASSERT_TRUE(here.insert("coordinator").second) << "seed " << seed;
          const bool fails = below(10) == 0;
          if (fails) here.erase("coordinator");
          happens(CoordinatorStarted{fails ? absl::UnavailableError("no port") : absl::OkStatus(), false});
        } else if (std::holds_alternative<KillCoordinator>(action)) {
          here.erase("coordinator");
        } else if (std::holds_alternative<LookAtFolder>(action)) {
          happens(FolderSeen{{{{HostRank(static_cast<std::int32_t>(below(3))), "somewhere"}},
                              below(2) > 0,
                              below(20) == 0}});
        }
      }
    };
    happens(Begun{});
    std::int64_t attempt = 1;
    for (int i = 0; i < 60 && !supervisor.outcome(); ++i) {
      now += milliseconds(100 * below(40));
      const ExitReason reason = static_cast<ExitReason>(below(8));
      const ProcessEnd end{reason, reason == ExitReason::kDone, reason == ExitReason::kKilled, "it ended",
                           reason == ExitReason::kDone
                               ? absl::OkStatus()
                               : with_exit_reason(absl::UnavailableError("why"), reason)};
      const auto newest = below(3) == 0 ? std::nullopt : std::optional(Version(below(5)));
      switch (below(6)) {
        case 0:
          attempt += below(2);
          happens(Answered{"/run", attempt, below(2) > 0, {"w0"}});
          break;
        case 1:
          happens(NotAnswered{below(2) > 0});
          break;
        case 2:
          if (here.erase("coordinator") > 0) happens(CoordinatorEnded{end, newest, below(2) > 0});
          break;
        case 3: {
          const char* const names[] = {"server0", "w0", "w1", "evaluator"};
          const std::string name = names[below(4)];
          if (here.erase(name) > 0) happens(MemberEnded{name, end, newest, below(2) > 0});
          break;
        }
        case 4:
          if (below(20) == 0) happens(StopWanted{"now"});
          if (below(60) == 0) happens(KillWanted{});
          break;
        default:
          happens(TimePassed{});
      }
    }
  }
}

}  // namespace
}  // namespace paceline::supervisor
