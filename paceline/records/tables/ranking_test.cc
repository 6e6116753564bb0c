#include "paceline/records/tables/ranking.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/tables/missed_paces.h"

namespace paceline::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Summary ended_run(const std::string& policy, std::optional<double> target_s, double accuracy,
                  double loss = 0.5) {
  Summary run;
  run.run = {.title = "job", .policy = policy, .world = World::kVirtual, .target = Target{"accuracy", 0.9}};
  run.last_evaluation = control::Evaluated{{}, Version(800), 51200, loss, accuracy};
  if (target_s) run.met_target = control::Evaluated{Time(from_seconds(*target_s)), Version(9), 0, 0, 0.9};
  return run;
}

Summary paces_missed(Summary run) {
  run.replicas.resize(2);
  run.replicas[0].name = "w0";
  run.replicas[0].pace = PaceSummary{.asked_s = 0.05, .taken_s = 0.051, .held = true};
  run.replicas[1].name = "w1";
  run.replicas[1].pace = PaceSummary{.asked_s = 0.1, .taken_s = 0.364, .held = false};
  return run;
}

TEST(Ranking, TheFastestEndsNearTheBest) {
  const Ranking ranking =
      rank({ended_run("bsp", 53.6, 0.9467), ended_run("asp", 28.7, 0.8940), ended_run("cgp", 31, 0.9401)});
  EXPECT_EQ(ranking.fastest, "cgp");
  EXPECT_THAT(
      ranking.verdict,
      ElementsAre(
          "cgp is the first to reach the target (accuracy ≥ 90 %) among those that end within 1 point "
          "of the best (94.67 %): after 31.0 virtual s",
          "asp reaches it 1.08 × as fast, but ends 4.61 points lower than cgp"));
}

TEST(Ranking, PoliciesThatTakeTheSameTimeAreTheFirstTogether) {
  for (const auto& [one, other] : {std::pair("cgp:S=0", "bsp"), std::pair("bsp", "cgp:S=0")}) {
    const Ranking ranking = rank({ended_run(one, 31, 0.94), ended_run("asp", 40, 0.94), ended_run(other, 31, 0.94)});
    EXPECT_THAT(ranking.verdict, ElementsAre(::testing::StartsWith(
                                     fmt::format("{} and {} are the first to reach the target", one, other))));
  }
}

TEST(Ranking, ARunThatDivergedIsNotTheFastest) {
  for (const double diverged : {NAN, INFINITY}) {
    const Ranking ranking = rank({ended_run("asp", 10, NAN, diverged), ended_run("bsp", 20, NAN, 2e-5),
                                  ended_run("ssp", 15, NAN, 3e-5)});
    EXPECT_EQ(ranking.fastest, "bsp");
    EXPECT_THAT(ranking.verdict,
                ElementsAre("bsp is the first to reach the target (accuracy ≥ 90 %) among those that end "
                            "within 2 % of the best (loss 2e-05): after 20.0 virtual s",
                            "asp reaches it 2.00 × as fast, but its end is not a finite number",
                            "ssp reaches it 1.33 × as fast, but ends with a loss of 3e-05 instead of 2e-05"));
  }
}

Summary diverged(Summary run) {
  run.run.diverged = true;
  return run;
}

// The last evaluation before the divergence may be the best of all.
TEST(Ranking, ARunThatDivergedIsNotRankedByAnEarlierEvaluation) {
  EXPECT_THAT(rank({diverged(ended_run("cgp", 12, 0.97)), ended_run("bsp", 20, 0.95)}).verdict,
              ElementsAre("bsp is the first to reach the target (accuracy ≥ 90 %): after 20.0 virtual s",
                          "cgp is not ranked: its training diverged"));
  EXPECT_THAT(
      rank({diverged(ended_run("cgp", 12, NAN, NAN)), diverged(ended_run("asp", 9, NAN, NAN))}).verdict,
      ElementsAre("cgp is not ranked: its training diverged", "asp is not ranked: its training diverged"));
  const Ranking seeds = rank({diverged(ended_run("cgp", 12, 0.97)), ended_run("cgp", 12, 0.97)});
  EXPECT_EQ(seeds.fastest, std::nullopt);
  EXPECT_THAT(seeds.verdict, ElementsAre("cgp is not ranked: its training diverged with 1 of 2 seeds"));
}

TEST(Ranking, ByTheLossWhereThereIsNoAccuracy) {
  const Ranking ranking = rank({ended_run("bsp", 20, NAN, 1.50), ended_run("asp", 10, NAN, 1.60)});
  EXPECT_EQ(ranking.fastest, "bsp");
  EXPECT_THAT(
      ranking.verdict,
      ElementsAre("bsp is the first to reach the target (accuracy ≥ 90 %) among those that end within 2 % of "
                  "the best (loss 1.5): after 20.0 virtual s",
                  "asp reaches it 2.00 × as fast, but ends with a loss of 1.6 instead of 1.5"));
}

// 0.95 − 0.94 is more than 0.01 in a double, and 0.94 − 0.93 is less.
TEST(Ranking, TheMarginIncludesItsEnd) {
  for (const double best : {0.95, 0.94, 0.67, 0.3})
    EXPECT_EQ(rank({ended_run("bsp", 20, best), ended_run("asp", 10, best - 0.01)}).fastest, "asp") << best;
  EXPECT_EQ(rank({ended_run("bsp", 20, 0.95), ended_run("asp", 10, 0.94)}).fastest, "asp");
  EXPECT_EQ(rank({ended_run("bsp", 20, 0.94), ended_run("asp", 10, 0.93)}).fastest, "asp");
  EXPECT_EQ(rank({ended_run("bsp", 20, 0.95), ended_run("asp", 10, 0.93999)}).fastest, "bsp");
  EXPECT_EQ(rank({ended_run("bsp", 20, NAN, 1.5), ended_run("asp", 10, NAN, 1.53)}).fastest, "asp");
}

// A log-likelihood or a reward may be below zero.
TEST(Ranking, ALossBelowZeroHasAMarginToo) {
  const Ranking ranking =
      rank({ended_run("bsp", 20, NAN, -10), ended_run("asp", 10, NAN, -9.9), ended_run("ssp", 5, NAN, -9)});
  EXPECT_EQ(ranking.fastest, "asp");
}

TEST(Ranking, IsNothingWhereNoneReachedTheTarget) {
  EXPECT_EQ(rank({ended_run("a", {}, 1)}).fastest, std::nullopt);
  // The best has not reached the target, and the one that did ends worse.
  const Ranking ranking = rank({ended_run("a", {}, 0.95), ended_run("b", 3, 0.9)});
  EXPECT_EQ(ranking.fastest, std::nullopt);
  EXPECT_THAT(ranking.verdict,
              ElementsAre("none among those that end within 1 point of the best (95.00 %) has reached the "
                          "target (accuracy ≥ 90 %)",
                          "b reaches it after 3.00 virtual s, but ends 5.00 points lower than a"));
  EXPECT_EQ(rank({}).fastest, std::nullopt);
}

TEST(Ranking, SaysThatNoneReachedTheTarget) {
  const char* const none = "none has reached the target (accuracy ≥ 90 %)";
  EXPECT_THAT(rank({ended_run("a", {}, 0.8), ended_run("b", {}, 0.85)}).verdict, ElementsAre(none));
  EXPECT_THAT(rank({ended_run("a", {}, 0.8)}).verdict, ElementsAre(none));
  EXPECT_THAT(rank({ended_run("a", 10, 0.9), ended_run("b", {}, 0.9), ended_run("a", {}, 0.9),
                    ended_run("b", {}, 0.9)})
                  .verdict,
              ElementsAre("none among those that end within 1 point of the best (90.00 %) has reached the "
                          "target (accuracy ≥ 90 %) with every seed",
                          "a reached it with 1 of 2 seeds"));
  Summary aimless = ended_run("a", {}, 0.8);
  aimless.run.target.reset();
  EXPECT_THAT(rank({aimless}).verdict, IsEmpty());
}

TEST(Ranking, NamesTheFirstOfEquallyFastRuns) {
  EXPECT_EQ(rank({ended_run("a", 3, 0.95), ended_run("b", 2, 0.95), ended_run("c", 2, 0.95)}).fastest, "b");
}

TEST(Ranking, ComparesMeansOverSeeds) {
  const Ranking ranking = rank({ended_run("a", 10, 0.95), ended_run("b", 3, 0.95), ended_run("a", 12, 0.94),
                                ended_run("b", 20, 0.95)});
  EXPECT_EQ(ranking.fastest, "a");
  EXPECT_THAT(
      ranking.verdict,
      ElementsAre(
          "a is the first to reach the target (accuracy ≥ 90 %) among those that end within 1 point of "
          "the best (95.00 %): after 11.0 virtual s on average"));
  EXPECT_EQ(rank({ended_run("a", 10, 0.95), ended_run("a", {}, 0.95)}).fastest, std::nullopt)
      << "not with every seed";
}

TEST(Ranking, ARunWhosePacesWereNotHeldHasNoRank) {
  const Ranking ranking = rank({paces_missed(ended_run("bsp", 5, 0.97)), ended_run("asp", 10, 0.95)});
  EXPECT_EQ(ranking.fastest, "asp");
  EXPECT_THAT(ranking.verdict,
              ElementsAre("asp is the first to reach the target (accuracy ≥ 90 %): after 10.0 virtual s",
                          "bsp is not ranked: w1 took 364 ms an iteration instead of 100; this machine is "
                          "too slow or too busy for "
                          "them; --virtual models the times instead"));
}

}  // namespace
}  // namespace paceline::report
