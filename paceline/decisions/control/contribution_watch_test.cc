#include "paceline/decisions/control/contribution_watch.h"

#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::control {
namespace {

using ::testing::HasSubstr;
using Verdict = ContributionWatch::Verdict;

Lease batch(std::int64_t number) { return {.epoch = 0, .begin = 10 * number, .end = 10 * number + 10}; }

Contribution good(const std::string& worker, std::int64_t number, std::int64_t version = 0, double norm = 1) {
  return {.worker = worker,
          .lease = batch(number),
          .version = Version(version),
          .loss = 0.5,
          .not_finite = "",
          .norm = norm};
}

Contribution bad(const std::string& worker, std::int64_t number, std::int64_t version = 0) {
  Contribution contribution = good(worker, number, version);
  contribution.not_finite = "conv.weight";
  return contribution;
}

TEST(ContributionWatch, OneBadContributionIsDiscardedAndItsWorkerIsNamed) {
  ContributionWatch watch(0);
  EXPECT_EQ(watch.judge(good("w0", 0), 2).verdict, Verdict::kGood);
  const auto judged = watch.judge(bad("w1", 1, 7), 2);
  EXPECT_EQ(judged.verdict, Verdict::kDiscard);
  EXPECT_EQ(judged.why,
            "w1: 'conv.weight' is not finite in its gradient, at a loss of 0.5 (version 7, samples 10 to 20 "
            "of epoch 0); "
            "it is discarded, and its samples are issued again");
}

// One worker that is alone as well as many.
TEST(ContributionWatch, TheRunEndsWhereAllDiverge) {
  for (const std::size_t workers : {1u, 2u, 8u, 128u}) {
    ContributionWatch watch(0);
    std::size_t judged = 0;
    Verdict verdict = Verdict::kDiscard;
    std::string why;
    for (; verdict == Verdict::kDiscard; ++judged) {
      // Samples come back first, so that few batches go around.
      const std::string worker = fmt::format("w{}", judged % workers);
      std::tie(verdict, why) = [&] {
        auto one = watch.judge(bad(worker, static_cast<std::int64_t>(judged % 3), 5), workers);
        return std::pair(one.verdict, one.why);
      }();
    }
    EXPECT_EQ(verdict, Verdict::kEndRun) << workers;
    EXPECT_EQ(judged, std::max<std::size_t>(3, workers));
    EXPECT_THAT(why, HasSubstr("the training diverges"));
    EXPECT_THAT(why, HasSubstr("lower optimizer.lr"));
  }
}

// Data that are not finite look like that too.
TEST(ContributionWatch, ALossThatIsNoNumberMayBeOfTheSamples) {
  const auto end_with_loss = [](double loss) {
    ContributionWatch watch(0);
    Contribution one = bad("w0", 0);
    one.loss = loss;
    watch.judge(one, 1);
    watch.judge(one, 1);
    return watch.judge(one, 1).why;
  };
  EXPECT_THAT(end_with_loss(std::numeric_limits<double>::quiet_NaN()),
              HasSubstr("look for nan and inf in these samples"));
  EXPECT_THAT(end_with_loss(0.5), ::testing::Not(HasSubstr("these samples")));
}

TEST(ContributionWatch, OneGoodContributionSaysThatNotAllDiverge) {
  ContributionWatch watch(0);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(watch.judge(bad("w0", 2 * i), 1).verdict, Verdict::kDiscard);
    EXPECT_EQ(watch.judge(bad("w0", 2 * i), 1).verdict, Verdict::kDiscard);
    EXPECT_EQ(watch.judge(good("w0", 2 * i), 1).verdict, Verdict::kGood);
  }
}

TEST(ContributionWatch, AWorkerThatIsAloneWithItIsGivenUp) {
  ContributionWatch watch(0);
  Verdict verdict = Verdict::kGood;
  int number = 0, bad_ones = 0;
  while (verdict != Verdict::kGiveUpWorker && number < 1000) {
    ++number;
    EXPECT_EQ(watch.judge(good("w0", 2 * number), 2).verdict, Verdict::kGood);
    if (number % 20 == 0) {
      ++bad_ones;
      verdict = watch.judge(bad("w1", number), 2).verdict;
      EXPECT_EQ(watch.judge(good("w0", number), 2).verdict, Verdict::kGood);
    } else {
      EXPECT_EQ(watch.judge(good("w1", 2 * number + 1), 2).verdict, Verdict::kGood);
    }
  }
  EXPECT_EQ(verdict, Verdict::kGiveUpWorker);
  EXPECT_EQ(bad_ones, 3);
}

// A fast worker may have three before another has had its first on these weights.
TEST(ContributionWatch, AFastWorkerIsNotBlamedWhereTheTrainingDiverges) {
  for (const bool diverges : {true, false}) {
    ContributionWatch watch(0);
    EXPECT_EQ(watch.judge(good("w0", 1, 69), 2).verdict, Verdict::kGood);
    EXPECT_EQ(watch.judge(good("w1", 2, 69), 2).verdict, Verdict::kGood);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(watch.judge(bad("w0", 3, 70), 2).verdict, Verdict::kDiscard);
    if (diverges) {
      EXPECT_EQ(watch.judge(bad("w1", 4, 70), 2).verdict, Verdict::kEndRun);
    } else {
      EXPECT_EQ(watch.judge(good("w1", 4, 70), 2).verdict, Verdict::kGood);
      EXPECT_EQ(watch.judge(bad("w0", 3, 70), 2).verdict, Verdict::kGiveUpWorker);
    }
  }
}

// Once in a while is no reason, and where others have them too it is not the machine.
TEST(ContributionWatch, ARareOneOrOneThatOthersHaveTooCostsNobodyHisPlace) {
  for (const bool others : {false, true}) {
    ContributionWatch watch(0);
    const int often = others ? 20 : 60;
    for (int number = 1; number < 2000; ++number) {
      for (const char* worker : {"w0", "w1"}) {
        const bool bad_now = number % often == 0 && (others || worker[1] == '1');
        if (bad_now) {
          EXPECT_EQ(watch.judge(bad(worker, 0), 2).verdict, Verdict::kDiscard);
        }
        EXPECT_EQ(watch.judge(good(worker, 0), 2).verdict, Verdict::kGood);
      }
    }
  }
}

TEST(ContributionWatch, SamplesThatAreBadEverywhereEndTheRunAndAreNamed) {
  ContributionWatch watch(0);
  std::string why;
  Verdict verdict = Verdict::kDiscard;
  int times = 0;
  for (std::int64_t version = 0; verdict == Verdict::kDiscard && version < 100; ++version) {
    const auto judged = watch.judge(bad(fmt::format("w{}", version % 3), 4, version), 3);
    verdict = judged.verdict;
    why = judged.why;
    ++times;
    watch.judge(good(fmt::format("w{}", (version + 1) % 3), 5 + version, version), 3);
  }
  EXPECT_EQ(verdict, Verdict::kEndRun);
  EXPECT_EQ(times, 3);
  EXPECT_THAT(
      why,
      HasSubstr("samples 40 to 50 of epoch 0 give a gradient that is not finite, 3 times, on w0, w1, w2"));
}

// Contributions under way when the divergence began were made at an earlier version.
TEST(ContributionWatch, DivergenceIsNotTakenForBadSamples) {
  ContributionWatch watch(0);
  EXPECT_EQ(watch.judge(bad("w0", 0, 9), 4).verdict, Verdict::kDiscard);
  EXPECT_EQ(watch.judge(good("w3", 1, 8), 4).verdict, Verdict::kGood);
  EXPECT_EQ(watch.judge(bad("w1", 0, 9), 4).verdict, Verdict::kDiscard);
  EXPECT_EQ(watch.judge(bad("w2", 0, 9), 4).verdict, Verdict::kDiscard);
  EXPECT_EQ(watch.judge(bad("w0", 0, 9), 4).verdict, Verdict::kDiscard);
  const auto judged = watch.judge(bad("w3", 0, 9), 4);
  EXPECT_EQ(judged.verdict, Verdict::kEndRun);
  EXPECT_THAT(judged.why, HasSubstr("diverges"));
}

TEST(ContributionWatch, AnOutlierIsDiscardedWhereTheJobWantsIt) {
  for (const double factor : {0.0, 20.0}) {
    ContributionWatch watch(factor);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(watch.judge(good("w0", i, 0, 1 + 0.01 * i), 2).verdict, Verdict::kGood);
    const auto judged = watch.judge(good("w1", 20, 0, 1e20), 2);
    EXPECT_EQ(judged.verdict, factor > 0 ? Verdict::kDiscard : Verdict::kGood);
    if (factor > 0) {
      EXPECT_THAT(judged.why, HasSubstr("w1: the norm of its gradient, 1e+20, is far from the others'"));
    }
    EXPECT_EQ(watch.judge(good("w0", 21, 0, 19), 2).verdict, Verdict::kGood);
  }
}

// The first ones have nothing to be compared with, and a training whose gradients grow goes on.
TEST(ContributionWatch, GradientsThatGrowAreNoOutliersForEver) {
  ContributionWatch watch(4);
  int discarded = 0;
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const double norm = std::exp(0.01 * i + 0.3 * (rng.uniform() - 0.5)) * (i == 1000 ? 1e6 : 1);
    const auto verdict = watch.judge(good("w0", i, i, norm), 1).verdict;
    ASSERT_NE(verdict, Verdict::kEndRun);
    discarded += verdict == Verdict::kDiscard;
  }
  EXPECT_EQ(discarded, 1);
  for (int i = 0; i < 64; ++i) watch.judge(good("w0", i, i, 1e30), 1);
  EXPECT_EQ(watch.judge(good("w0", 0, 0, 1e30), 1).verdict, Verdict::kGood);
}

}  // namespace
}  // namespace paceline::control
