// The searches compared with each other: the exact ones with naive if naive can be run, else with each other;
// the others are never below the least range.
#include "paceline/decisions/policy/zip_line.h"

#include <algorithm>
#include <tuple>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::policy {
namespace {

struct Shape {
  std::size_t most_lists;
  std::size_t most_elements;
  std::uint64_t largest;  // few different values: many ties
};

std::vector<NumberList> random_lists(Rng& rng, const Shape& shape, double unit) {
  std::vector<NumberList> lists(1 + rng.below(shape.most_lists));
  for (NumberList& list : lists) {
    list.resize(1 + rng.below(shape.most_elements));
    for (double& value : list) value = unit * static_cast<double>(rng.below(shape.largest));
    std::sort(list.begin(), list.end());
  }
  return lists;
}

std::vector<TimeList> as_times(const std::vector<NumberList>& lists) {
  std::vector<TimeList> times(lists.size());
  for (std::size_t k = 0; k < lists.size(); ++k) {
    for (const double value : lists[k]) times[k].push_back(Time(Duration(static_cast<std::int64_t>(value))));
  }
  return times;
}

std::vector<EvenTimes> random_even_times(Rng& rng, const Shape& shape) {
  std::vector<EvenTimes> lists(1 + rng.below(shape.most_lists));
  for (EvenTimes& list : lists) {
    list.first = Time(Duration(static_cast<std::int64_t>(rng.below(shape.largest))));
    list.step = Duration(1 + static_cast<std::int64_t>(rng.below(shape.largest)));
    list.count = 1 + rng.below(shape.most_elements);
  }
  return lists;
}

// The same times, stored.
std::vector<TimeList> stored(const std::vector<EvenTimes>& lists) {
  std::vector<TimeList> times(lists.size());
  for (std::size_t k = 0; k < lists.size(); ++k) {
    Time next = lists[k].first;
    for (std::size_t i = 0; i < lists[k].count; ++i, next += lists[k].step) times[k].push_back(next);
  }
  return times;
}

template <class List>
void expect_exact(const std::vector<List>& lists, const std::string& what) {
  const Selection<List> expected = naive(lists);
  ASSERT_EQ(zip_line(lists), expected) << what;
  ASSERT_EQ(zip_line_scan(lists), expected) << what;
  ASSERT_EQ(zip_line_opt(lists), expected) << what;
  ASSERT_EQ(zip_line_opt_bs(lists), expected) << what;
  ASSERT_EQ(full_grid_scan_exact(lists), expected) << what;
  ASSERT_GE(full_grid_scan(lists).range, expected.range) << what;
  ASSERT_GE(grid_scan(lists).range, full_grid_scan(lists).range) << what;
}

TEST(ZipLine, AgreesWithEverySelectionTried) {
  Rng rng(1);
  for (const Shape& shape : {Shape{4, 5, 6}, Shape{4, 5, 40}, Shape{5, 4, 1'000'000}, Shape{2, 30, 100}}) {
    for (int i = 0; i < 2000; ++i) {
      const std::vector<NumberList> lists = random_lists(rng, shape, 1);
      const std::string what = fmt::format("{}", lists);
      expect_exact(lists, what);
      expect_exact(as_times(lists), what);
    }
  }
}

// Multiples of 0.1 are not exact, so that equal distances differ in their last bit or do not.
TEST(ZipLine, AgreesOnDecimals) {
  Rng rng(2);
  for (int i = 0; i < 4000; ++i) {
    const std::vector<NumberList> lists = random_lists(rng, {4, 5, 12}, 0.1);
    expect_exact(lists, fmt::format("{}", lists));
  }
}

TEST(ZipLine, NeedsNoStorageForEvenTimes) {
  Rng rng(3);
  for (int i = 0; i < 4000; ++i) {
    const std::vector<EvenTimes> lists = random_even_times(rng, {4, 5, 12});
    const Selection<EvenTimes> found = zip_line(lists);
    const Selection<TimeList> expected = naive(stored(lists));
    ASSERT_EQ(std::tie(found.range, found.begin, found.end, found.picks),
              std::tie(expected.range, expected.begin, expected.end, expected.picks));
  }
}

TEST(ZipLine, AgreesWithTheFullGridScanOnLargerInput) {
  Rng rng(4);
  for (const Shape& shape : {Shape{60, 60, 200}, Shape{60, 60, 1'000'000}, Shape{400, 8, 5000}}) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<NumberList> lists = random_lists(rng, shape, 1);
      const Selection<NumberList> found = zip_line(lists);
      ASSERT_EQ(found, full_grid_scan_exact(lists)) << fmt::format("{}", lists);
      ASSERT_EQ(found, zip_line_scan(lists)) << fmt::format("{}", lists);
      ASSERT_EQ(found, zip_line_opt(lists)) << fmt::format("{}", lists);
      ASSERT_EQ(found, zip_line_opt_bs(lists)) << fmt::format("{}", lists);
    }
  }
}

template <class List>
void expect_in_all(const std::vector<List>& lists, const Selection<List>& expected) {
  EXPECT_EQ(zip_line(lists), expected);
  EXPECT_EQ(zip_line_scan(lists), expected);
  EXPECT_EQ(zip_line_opt(lists), expected);
  EXPECT_EQ(zip_line_opt_bs(lists), expected);
  EXPECT_EQ(full_grid_scan_exact(lists), expected);
  EXPECT_EQ(naive(lists), expected);
}

TEST(ZipLine, KnownAnswers) {
  // 1.0 s and 2.3 s from their last ready times, 2 and 4.6: 7 and 6.9 come closest within five.
  expect_in_all<NumberList>({{3, 4, 5, 6, 7}, {6.9, 9.2, 11.5, 13.8, 16.1}}, {7 - 6.9, 6.9, 7, {4, 0}});
  // The first one to end of two selections with range 1.
  expect_in_all<NumberList>({{1, 5}, {2, 6}}, {1, 1, 2, {0, 0}});
  expect_in_all<NumberList>({{5}, {4, 6}}, {1, 4, 5, {0, 0}});
  // The earliest elements of each list that fit.
  expect_in_all<NumberList>({{0, 1, 10}, {3, 3, 4, 9}, {2, 4, 5}}, {2, 1, 3, {1, 0, 0}});
}

TEST(ZipLine, OneListOneElementEqualLists) {
  expect_in_all<NumberList>({{3, 4, 5}}, {0, 3, 3, {0}});
  expect_in_all<NumberList>({{-7}}, {0, -7, -7, {0}});
  expect_in_all<NumberList>({{1}, {9}, {4}}, {8, 1, 9, {0, 0, 0}});
  expect_in_all<NumberList>({{2, 3}, {2, 3}, {2, 3}}, {0, 2, 2, {0, 0, 0}});
  expect_in_all<NumberList>({{2, 2, 2}, {2}}, {0, 2, 2, {0, 0}});
}

TEST(ZipLine, ListsEndBeforeOthersBegin) {
  expect_in_all<NumberList>({{1, 2, 3}, {10, 11}, {20}}, {17, 3, 20, {2, 0, 0}});
}

// The base is the list that begins earliest, {-2.6, 2.5}: from -2.6 the others give what is closest, -2 and
// 0.
TEST(GridScan, StartsFromTheListThatBeginsEarliest) {
  EXPECT_EQ(grid_scan<NumberList>({{0}, {-2, 3}, {-2.6, 2.5}}),
            (Selection<NumberList>{2.6, -2.6, 0, {0, 0, 0}}));
}

// The result from the list that begins earliest, {0, 841.946}; from the first list it would be 158.054, which
// is the least.
TEST(GridScan, MissesWhatItWouldFindFromAnotherList) {
  const std::vector<NumberList> lists = {{1000}, {0, 841.946}, {771.547, 925}};
  const Selection<NumberList> found = grid_scan(lists);
  EXPECT_NEAR(static_cast<double>(found.range), 228.453, 1e-9);
  EXPECT_EQ(found.picks, (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_NEAR(static_cast<double>(zip_line(lists).range), 158.054, 1e-9);
}

// The elements closest to one element may lie on both sides of it.
TEST(GridScan, IsSometimesWorse) {
  const std::vector<NumberList> lists = {{-100, 0}, {-2, 3}, {-2.6, 2.5}};
  EXPECT_EQ(grid_scan(lists), (Selection<NumberList>{4.5, -2, 2.5, {1, 0, 1}}));
  expect_in_all<NumberList>(lists, {2.6, -2.6, 0, {1, 0, 0}});
}

TEST(FullGridScan, TakesTheClosestAndIsSometimesWorse) {
  Rng rng(5);
  int worse = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<NumberList> lists = random_lists(rng, {5, 4, 1'000'000}, 1);
    if (full_grid_scan(lists).range > zip_line(lists).range) ++worse;
  }
  EXPECT_GT(worse, 5);
}

}  // namespace
}  // namespace paceline::policy
