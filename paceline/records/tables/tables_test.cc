#include "paceline/records/tables/tables.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string rule(std::size_t width) { return std::string(width, '-') + "\n"; }

Summary run_of(const std::string& policy, std::optional<double> target_s, double accuracy) {
  Summary run;
  run.run = {.title = "job",
             .policy = policy,
             .world = World::kVirtual,
             .total_samples = 51200,
             .target = Target{"accuracy", 0.9}};
  run.samples = 51200;
  run.elapsed_s = 104.25;
  run.samples_per_s = 1491.1;
  run.commits = 800;
  run.wait_share = 0.4781;
  run.gap_max = 4;
  run.staleness_mean = 1.5;
  run.staleness_max = 12;
  run.last_evaluation = control::Evaluated{{}, Version(800), 51200, 0.1255, accuracy};
  if (target_s) run.met_target = control::Evaluated{Time(from_seconds(*target_s)), Version(9), 0, 0, 0.9};
  return run;
}

TEST(ComparisonTable, MarksTheFastest) {
  EXPECT_EQ(comparison_table(
                {run_of("bsp", 53.61, 0.9467), run_of("asp", 9.5, 0.94), run_of("dssp:3-15", {}, 0.6)}),
            "policy     to target (s)  samples/s  waiting (%)  gap max  staleness mean  max  test loss  "
            "accuracy (%)  virtual s\n" +
                rule(114) +
                "bsp                 53.6      1,491         47.8        4            1.50   12     0.1255   "
                "      94.67      104.2\n"
                "asp *               9.50      1,491         47.8        4            1.50   12     0.1255   "
                "      94.00      104.2\n"
                "dssp:3-15              –      1,491         47.8        4            1.50   12     0.1255   "
                "      60.00      104.2\n"
                "* asp is the first to reach the target (accuracy ≥ 90 %) among those that end within 1 "
                "point of the "
                "best (94.67 %): after 9.50 virtual s\n");
}

TEST(ComparisonTable, HasMeansAndStandardErrorsOverSeeds) {
  const ComparisonRows rows =
      comparison_rows({run_of("bsp", 50, 0.94), run_of("asp", 9, 0.93), run_of("bsp", 54, 0.95),
                       run_of("asp", {}, 0.9), run_of("bsp", 58, 0.96), run_of("asp", {}, 0.9)});
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.rows[0][0], "bsp *");
  EXPECT_EQ(rows.rows[0][1], "54.0 ± 2.31");  // sqrt((4² + 0 + 4²) / 2 / 3)
  EXPECT_EQ(rows.rows[0][8], "95.00 ± 0.58");
  EXPECT_EQ(rows.rows[1][1], "9.00 (1 of 3)");
  EXPECT_EQ(rows.rows[1][4], "4");
}

Summary ended(Summary run, control::FinishCause cause = control::FinishCause::kEverySample) {
  run.finish_cause = cause;
  return run;
}

TEST(ComparisonTable, MarksRunsThatDidNotComeToTheirEnd) {
  const Summary done = ended(run_of("bsp", 50, 0.94));
  const Summary stopped = ended(run_of("asp", 9, 0.96), control::FinishCause::kStopped);
  Summary diverged = run_of("ssp:2", 9, 0.97);
  diverged.run.diverged = true;
  const PlannedRuns planned{.all = 3, .each = 1};
  const ComparisonRows rows = comparison_rows({done, stopped, diverged}, planned);
  EXPECT_EQ(rows.rows[0][0], "bsp");
  EXPECT_EQ(rows.rows[1][0], "asp (unfinished)");
  EXPECT_EQ(rows.rows[2][0], "ssp:2 (diverged)");
  for (const std::size_t column : {7u, 8u, 9u}) {
    EXPECT_NE(rows.rows[0][column], "–") << column;
    EXPECT_EQ(rows.rows[1][column], "–") << column;
    EXPECT_EQ(rows.rows[2][column], "–") << column;
  }
  EXPECT_EQ(rows.rows[1][1], "9.00") << "it had reached its target";
  EXPECT_THAT(comparison_table({done, stopped, diverged}, planned),
              HasSubstr("\n2 of 3 trainings are done, so it is open who is the fastest\n"));
  EXPECT_THAT(comparison_table({done, ended(run_of("asp", 9, 0.96), control::FinishCause::kTarget), diverged},
                               planned),
              HasSubstr("\n* asp is the first to reach the target"));
}

TEST(ComparisonTable, CountsTheSeedsThatAreMissing) {
  const Summary done = ended(run_of("bsp", 50, 0.94)), other = ended(run_of("asp", 40, 0.93));
  Summary diverged = run_of("asp", 30, 0.97);
  diverged.run.diverged = true;
  const std::vector<Summary> runs{done, other, done, diverged, done, run_of("cgp", 20, 0.9)};
  const ComparisonRows rows = comparison_rows(runs, {.all = 9, .each = 3});
  EXPECT_EQ(rows.rows[0][0], "bsp");
  EXPECT_EQ(rows.rows[0][8], "94.00 ± 0.00");
  EXPECT_EQ(rows.rows[1][0], "asp (1 diverged, 1 unfinished)");
  EXPECT_EQ(rows.rows[1][1], "35.0 ± 5.00 (2 of 3)");
  EXPECT_EQ(rows.rows[1][8], "93.00 (1 of 3)");
  EXPECT_EQ(rows.rows[2][0], "cgp (3 unfinished)");
  EXPECT_EQ(rows.rows[2][8], "–");
  EXPECT_THAT(comparison_table(runs, {.all = 9, .each = 3}),
              HasSubstr("\n5 of 9 trainings are done, so it is open who is the fastest\n"));
  Summary aimless = run_of("bsp", {}, 0.9);
  aimless.run.target.reset();
  EXPECT_THAT(comparison_table({aimless}, {.all = 2, .each = 1}), HasSubstr("\n0 of 2 trainings are done\n"));
}

TEST(ComparisonTable, ASmallLossIsNotZero) {
  Summary run = run_of("bsp", 3, 0.95);
  run.last_evaluation->loss = 2.125e-5;
  EXPECT_EQ(comparison_rows({run}).rows[0][7], "2.125e-05");
}

TEST(ComparisonTable, ShowsADashForUnknownValues) {
  Summary empty;
  empty.run.policy = "bsp";
  const std::string text = comparison_table({empty});
  EXPECT_THAT(text, HasSubstr("bsp                 –          0            –        0               –    –   "
                              "       –             –    0.00\n"));
  EXPECT_THAT(text, Not(HasSubstr("*")));
  EXPECT_EQ(comparison_table({}), "nothing to compare\n");
}

TEST(ComparisonTable, SaysThatNoneReachedTheTarget) {
  EXPECT_THAT(comparison_table({run_of("bsp", {}, 0.8), run_of("asp", {}, 0.7)}),
              HasSubstr("\nnone has reached the target (accuracy ≥ 90 %)\n"));
}

// 0.1 + 0.2 + … : the mean of equal numbers is not always that number.
TEST(ComparisonTable, RoundingIsNoError) {
  Summary one = run_of("bsp", 3, 0.95);
  one.samples_per_s = 356.1;
  EXPECT_EQ(comparison_rows({one, one, one}).rows[0][2], "356 ± 0");
}

TEST(SimulationTable, HasOneRowWithStandardErrorsForSeveralSeeds) {
  Summary first = run_of("bsp", {}, 0), second = first, other = run_of("asp", {}, 0);
  first.iterations = 104, second.iterations = 208;
  first.elapsed_s = second.elapsed_s = 104;
  second.gap_max = 9;
  const std::string text = simulation_table({first, second, other});
  EXPECT_THAT(text, HasSubstr("\nbsp     1.500 ± 0.500  "));
  EXPECT_THAT(text, HasSubstr("        9 "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

ReplicaSummary replica(const std::string& name) {
  ReplicaSummary summary;
  summary.name = name;
  return summary;
}

TEST(ReplicaTable, HasOneRowAReplica) {
  Summary run = run_of("ssp:3", 3, 0.95);
  run.replicas = {replica("rtx-a"), replica("w1")};
  ReplicaSummary& first = run.replicas[0];
  first.doing = Doing::kGone;
  first.why = "no heartbeat for 3 s";
  first.iterations = 1234;
  first.samples = 78976;
  first.mean_compute_s = 0.10941;
  first.wait_share = 0.5;
  first.mean_staleness = 1.25;
  EXPECT_EQ(
      replica_table(run),
      "replica  iterations  samples  compute (s)  waiting (%)  staleness  state\n" + rule(93) +
          "rtx-a         1,234   78,976        0.109         50.0       1.25  gone: no heartbeat for 3 s\n"
          "w1                0        0            –            –          –  joining\n"
          "ssp:3: 51,200 of 51,200 samples in 104.2 virtual s, 1,491 samples/s, 800 commits, waiting 47.8 %, "
          "largest gap 4, test accuracy 95.00 %\n");
}

TEST(ReplicaTable, SaysThatPacesWereNotHeld) {
  Summary run = run_of("ssp:3", 3, 0.95);
  run.replicas = {replica("w0")};
  run.replicas[0].pace = PaceSummary{.asked_s = 0.1, .taken_s = 0.101, .held = true};
  EXPECT_THAT(replica_table(run), Not(HasSubstr("paces")));
  run.replicas[0].pace = PaceSummary{.asked_s = 0.1, .taken_s = 0.364, .held = false};
  EXPECT_THAT(replica_table(run), HasSubstr("paces not held: w0 took 364 ms an iteration instead of 100; "
                                            "this machine is too slow or too busy for "
                                            "them; --virtual models the times instead\n"));
}

TEST(ReplicaTable, APaceOfSecondsIsAPlainNumber) {
  Summary run = run_of("ssp:3", 3, 0.95);
  run.replicas = {replica("w0")};
  run.replicas[0].pace = PaceSummary{.asked_s = 0.003, .taken_s = 3.3581, .held = false};
  EXPECT_THAT(replica_table(run), HasSubstr("w0 took 3358 ms an iteration instead of 3;"));
}

TEST(ReplicaTable, SaysHowFarTheWeightsMovedUnderLateGradients) {
  Summary run = run_of("asp", 3, 0.95);
  run.run.used_weights = UsedWeights{8.891, 0.12, 0.5, 0.4, 1.2};
  EXPECT_THAT(
      replica_table(run),
      HasSubstr("\nlate gradients: until a gradient was committed, the weights moved by 0.12 G on "
                "average and by 0.5 G at most; theory allows 0.4 G and 1.2 G. G = 8.89 is the largest "
                "norm of a gradient\n"));
  run.run.attempts = 2;
  EXPECT_THAT(replica_table(run), HasSubstr("\nlate gradients of the latest attempt: until"));
  run.run.used_weights = UsedWeights{8.891, 0, 0, 0, 0};
  EXPECT_THAT(replica_table(run), Not(HasSubstr("G = ")));
}

TEST(ReplicaTable, SaysHowManyGradientsAnUpdateHadWhereGroupsForm) {
  Summary run = run_of("cgp", 3, 0.95);
  run.groups.size_mean = 2.625;
  EXPECT_THAT(replica_table(run), HasSubstr("800 commits, waiting"));
  run.groups.between = true;
  EXPECT_THAT(replica_table(run), HasSubstr("800 commits of 2.62 gradients, waiting"));
}

TEST(ReplicaTable, SaysHowManyAreLeftOut) {
  Summary run = run_of("asp", 3, 0.95);
  run.replicas.assign(50, replica("w"));
  EXPECT_THAT(replica_table(run, 40), HasSubstr("and 10 more replicas\n"));
  EXPECT_THAT(replica_table(run, 50), Not(HasSubstr("more replicas")));
}

TEST(ReplicaTable, NamesCannotCommandTheTerminal) {
  Summary run = run_of("asp", 3, 0.95);
  run.replicas = {replica("\x1b]0;owned\x07")};
  EXPECT_THAT(replica_table(run), HasSubstr("?]0;owned?"));
  EXPECT_THAT(replica_table(run), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace paceline::report
