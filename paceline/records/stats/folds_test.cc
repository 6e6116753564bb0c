#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/records/stats/first_and_latest.h"
#include "paceline/records/stats/group_histogram.h"
#include "paceline/records/stats/loss_average.h"
#include "paceline/records/stats/staleness_histogram.h"
#include "paceline/records/stats/thinned.h"

namespace paceline::report {
namespace {

using ::testing::ElementsAre;

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
    if (i > 1000) i += 997;  // checking every length would take minutes
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

policy::Reason because(std::string_view text) { return {text, 3, 4}; }

TEST(GroupHistogram, CountsBySizeAndCause) {
  GroupHistogram histogram;
  histogram.add(1, because("path free: {} gradients"));
  histogram.add(3, because("full: {} of {}"));
  histogram.add(3, because("path free: more of it"));
  histogram.add(3, because("full: {} of {}"));
  EXPECT_THAT(histogram.causes(), ElementsAre("path free", "full"));
  const auto bins = histogram.bins();
  ASSERT_EQ(bins.size(), 3U);
  EXPECT_EQ(bins[2].from, 3);
  EXPECT_EQ(bins[2].to, 3);
  EXPECT_THAT(bins[0].commits, ElementsAre(1, 0));
  EXPECT_THAT(bins[1].commits, ElementsAre(0, 0));
  EXPECT_THAT(bins[2].commits, ElementsAre(1, 2));
}

TEST(GroupHistogram, LargeSizesShareTheirBins) {
  GroupHistogram histogram;
  for (const std::int64_t size : {16, 17, 32, 33, 64, 65, 100'000}) histogram.add(size, because("all"));
  const auto bins = histogram.bins();
  ASSERT_EQ(bins.size(), 16U + 13);
  const auto bin = [&](std::size_t i) { return std::tuple(bins[i].from, bins[i].to, bins[i].commits.at(0)); };
  EXPECT_EQ(bin(15), std::tuple(16, 16, 1));
  EXPECT_EQ(bin(16), std::tuple(17, 32, 2));
  EXPECT_EQ(bin(17), std::tuple(33, 64, 2));
  EXPECT_EQ(bin(18), std::tuple(65, 128, 1));
  EXPECT_EQ(bin(28), std::tuple(65'537, 131'072, 1));
}

TEST(GroupHistogram, HasAHandfulOfCauses) {
  const std::vector<std::string> texts = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  GroupHistogram histogram;
  for (const std::string& text : texts) histogram.add(1, because(text));
  histogram.add(1, because("b"));
  EXPECT_THAT(histogram.causes(), ElementsAre("a", "b", "c", "d", "e", "f", "g", "other"));
  EXPECT_THAT(histogram.bins()[0].commits, ElementsAre(1, 2, 1, 1, 1, 1, 1, 2));
}

TEST(GroupHistogram, ACauseHasNoNumbers) {
  EXPECT_EQ(cause_of(because("all {} live replicas are ready")), "all … live replicas are ready");
  EXPECT_EQ(cause_of(because("path free: {} of {}")), "path free");
  EXPECT_EQ(cause_of({}), "");
}

TEST(LossAverage, WeighsBySamples) {
  LossAverage average;
  EXPECT_EQ(average.value(), std::nullopt);
  average.add(1.0, 30, 1'000'000);
  average.add(2.0, 10, 1'000'000);
  EXPECT_NEAR(*average.value(), 1.25, 1e-4);
}

TEST(LossAverage, WeighsByWhatTheProgramSays) {
  LossAverage average;
  average.add(5, 10, 1'000'000, 0.0);
  EXPECT_FALSE(average.value().has_value()) << "it counts nothing";
  average.add(1, 10, 1'000'000, 100.0);
  average.add(3, 30, 1'000'000, 300.0);
  EXPECT_NEAR(*average.value(), 2.5, 1e-4);
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
