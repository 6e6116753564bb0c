#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/report/first_and_latest.h"
#include "paceline/report/loss_average.h"
#include "paceline/report/staleness_histogram.h"
#include "paceline/report/thinned.h"

namespace paceline::report {
namespace {

using testing::ElementsAre;

struct Larger {
  int operator()(int a, int b) const { return a > b ? a : b; }
};

TEST(Thinned, KeepsEverythingWhileItFits) {
  Thinned<int> curve(8);
  for (int i = 1; i <= 7; ++i) curve.add(i);
  EXPECT_THAT(curve.points(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(Thinned, MergesNeighboursWhenFull) {
  Thinned<int> curve(4);
  for (int i = 1; i <= 4; ++i) curve.add(i);
  EXPECT_THAT(curve.points(), ElementsAre(2, 4));
  curve.add(5);
  EXPECT_THAT(curve.points(), ElementsAre(2, 4, 5)) << "the newest is shown though its pair is not full";
  curve.add(6);
  EXPECT_THAT(curve.points(), ElementsAre(2, 4, 6));
}

TEST(Thinned, KeepsTheLargestIfToldSo) {
  Thinned<int, Larger> curve(4);
  for (const int value : {9, 1, 1, 1, 7, 2}) curve.add(value);
  EXPECT_THAT(curve.points(), ElementsAre(9, 1, 7));
}

TEST(Thinned, StaysBelowItsCapacityAndKeepsTheLatest) {
  Thinned<int> curve(100);
  for (int i = 0; i < 1'000'000; ++i) {
    curve.add(i);
    ASSERT_LE(curve.points().size(), 100U) << i;
    if (i > 1000) i += 997;  // looking at every length would take minutes
  }
  EXPECT_GT(curve.points().back(), 999'000);
}

TEST(FirstAndLatest, ForgetsTheMiddleAndCountsIt) {
  FirstAndLatest<int> list(2, 3);
  for (int i = 1; i <= 9; ++i) list.add(i);
  EXPECT_THAT(list.kept(), ElementsAre(1, 2, 7, 8, 9));
  EXPECT_EQ(list.left_out(), 4);
}

TEST(StalenessHistogram, CountsByValue) {
  StalenessHistogram histogram;
  for (const int staleness : {0, 0, 3, 1}) histogram.add(staleness);
  EXPECT_EQ(histogram.bin_width(), 1);
  EXPECT_THAT(histogram.counts(), ElementsAre(2, 1, 0, 1));
  EXPECT_DOUBLE_EQ(histogram.mean(), 1.0);
  EXPECT_EQ(histogram.max(), 3);
}

TEST(StalenessHistogram, WidensItsBinsForLargeValues) {
  StalenessHistogram histogram;
  for (const int staleness : {0, 1, 2, 127, 300}) histogram.add(staleness);
  EXPECT_EQ(histogram.bin_width(), 4);
  EXPECT_EQ(histogram.counts()[0], 3);
  EXPECT_EQ(histogram.counts()[31], 1);
  EXPECT_EQ(histogram.counts()[75], 1);
  EXPECT_EQ(histogram.counts().size(), 76U);
  EXPECT_DOUBLE_EQ(histogram.mean(), 86.0) << "the mean does not suffer from the bins";
  histogram.add(1'000'000'000);
  EXPECT_LE(std::ssize(histogram.counts()), StalenessHistogram::kMaxBins);
}

TEST(LossAverage, WeighsBySamples) {
  LossAverage average;
  EXPECT_EQ(average.value(), std::nullopt);
  average.add(1.0, 30, 1'000'000);
  average.add(2.0, 10, 1'000'000);
  EXPECT_NEAR(*average.value(), 1.25, 1e-4);
}

TEST(LossAverage, ForgetsByTheWindow) {
  LossAverage average;
  average.add(1.0, 10, 10);
  average.add(2.0, 10, 10);
  const double old = std::exp(-1.0);
  EXPECT_DOUBLE_EQ(*average.value(), (old + 2.0) / (old + 1.0));
}

TEST(LossAverage, TellsWhatIsNotANumberAndRecovers) {
  LossAverage average;
  average.add(1.0, 10, 10);
  average.add(std::numeric_limits<double>::infinity(), 10, 10);
  EXPECT_TRUE(std::isnan(*average.value()));
  average.add(3.0, 10, 10);
  EXPECT_DOUBLE_EQ(*average.value(), 3.0);
}

}  // namespace
}  // namespace paceline::report
