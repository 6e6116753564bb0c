// The searches of zip_line.h by name, over lists from outside: what the command line and the benchmarks call.
// The input is not trusted: lists that no search accepts, and searches that would take for ever, are errors.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/zip_line.h"

namespace paceline::policy {

enum class SearchMethod {
  kZipLine,
  kZipLineScan,
  kZipLineOpt,
  kZipLineOptBs,
  kFullGridScan,
  kFullGridScanExact,
  kGridScan,
  kNaive
};
inline constexpr SearchMethod kSearchMethods[] = {
    SearchMethod::kZipLine,      SearchMethod::kZipLineScan,  SearchMethod::kZipLineOpt,
    SearchMethod::kZipLineOptBs, SearchMethod::kFullGridScan, SearchMethod::kFullGridScanExact,
    SearchMethod::kGridScan,     SearchMethod::kNaive};

// "zip-line", "zip-line-scan", "zip-line-opt", "zip-line-opt-bs", "full-grid-scan", "full-grid-scan-exact",
// "grid-scan", "naive".
std::string to_string(SearchMethod method);
// Errors: InvalidArgument that lists the names.
absl::StatusOr<SearchMethod> parse_search_method(const std::string& text);

// How many elements the method looks at on lists of these sizes, at most: whether it takes a second or a
// year.
double search_steps(SearchMethod method, const std::vector<std::size_t>& sizes);
// About a minute.
inline constexpr double kMostSearchSteps = 3e10;

// Errors: InvalidArgument when there is no list, when one is empty or descends, and when the method would
// take more than kMostSearchSteps.
absl::StatusOr<Selection<NumberList>> search(SearchMethod method, const std::vector<NumberList>& lists);

}  // namespace paceline::policy
