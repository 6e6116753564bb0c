// The searches from a user's view: names, and unchecked lists.
#include "paceline/decisions/policy/search_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;

const std::vector<NumberList> kLists = {{-100, 0}, {-2, 3}, {-2.6, 2.5}};

void expect_refused(SearchMethod method, const std::vector<NumberList>& lists, const std::string& says) {
  const auto found = search(method, lists);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(says));
}

TEST(SearchMethod, EveryNameIsReadBack) {
  for (const SearchMethod method : kSearchMethods)
    EXPECT_EQ(parse_search_method(to_string(method)).value(), method);
  EXPECT_THAT(
      std::string(parse_search_method("zipline").status().message()),
      HasSubstr("method 'zipline': unknown; write zip-line, zip-line-scan, zip-line-opt, zip-line-opt-bs, "
                "full-grid-scan, full-grid-scan-exact, grid-scan or naive"));
}

TEST(Search, CallsTheMethodThatWasAskedFor) {
  EXPECT_EQ(search(SearchMethod::kZipLine, kLists).value(), zip_line(kLists));
  EXPECT_EQ(search(SearchMethod::kFullGridScan, kLists).value(), full_grid_scan(kLists));
  EXPECT_EQ(search(SearchMethod::kFullGridScanExact, kLists).value(), full_grid_scan_exact(kLists));
  EXPECT_EQ(search(SearchMethod::kZipLineScan, kLists).value(), zip_line_scan(kLists));
  EXPECT_EQ(search(SearchMethod::kZipLineOpt, kLists).value(), zip_line_opt(kLists));
  EXPECT_EQ(search(SearchMethod::kZipLineOptBs, kLists).value(), zip_line_opt_bs(kLists));
  EXPECT_EQ(search(SearchMethod::kNaive, kLists).value(), naive(kLists));
  EXPECT_EQ(search(SearchMethod::kGridScan, kLists).value(), grid_scan(kLists));
  EXPECT_NE(grid_scan(kLists), zip_line(kLists));
}

TEST(Search, RefusesWhatNoMethodCanTake) {
  for (const SearchMethod method : kSearchMethods) {
    expect_refused(method, {}, "there is no list");
    expect_refused(method, {{1}, {}}, "list 1 is empty");
    expect_refused(method, {{1, 3, 2}}, "list 0 descends");
  }
}

TEST(Search, RefusesWhatWouldTakeForEver) {
  const std::vector<NumberList> wide(40, NumberList(10, 1.0));
  expect_refused(SearchMethod::kNaive, wide,
                 "naive would take up to 4e+41 steps on these 40 lists; use zip-line");
  // More selections than a double can count.
  expect_refused(SearchMethod::kNaive, std::vector<NumberList>(400, NumberList(10, 1.0)), "use zip-line");
  expect_refused(SearchMethod::kFullGridScan, {NumberList(200'000, 1.0)}, "use zip-line");
  expect_refused(SearchMethod::kGridScan, {NumberList(200'000, 1.0)}, "use zip-line");
  EXPECT_TRUE(search(SearchMethod::kZipLine, {NumberList(200'000, 1.0)}).ok());
}

}  // namespace
}  // namespace paceline::policy
