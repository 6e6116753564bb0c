#include "paceline/decisions/policy/search_method.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::policy {

namespace {

constexpr const char* kNames[] = {"zip-line",       "zip-line-scan",        "zip-line-opt", "zip-line-opt-bs",
                                  "full-grid-scan", "full-grid-scan-exact", "grid-scan",    "naive"};

absl::Status check(const NumberList& list, std::size_t place) {
  if (list.empty()) return absl::InvalidArgumentError(fmt::format("list {} is empty; give it a time", place));
  if (std::is_sorted(list.begin(), list.end())) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("list {} descends; sort it", place));
}

absl::Status check_steps(SearchMethod method, const std::vector<NumberList>& lists) {
  std::vector<std::size_t> sizes;
  for (const NumberList& list : lists) sizes.push_back(list.size());
  const double steps = search_steps(method, sizes);
  if (steps <= kMostSearchSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} would take up to {:.0e} steps on these {} lists; use zip-line", to_string(method),
                  steps, lists.size()));
}

}  // namespace

std::string to_string(SearchMethod method) { return kNames[static_cast<std::size_t>(method)]; }

absl::StatusOr<SearchMethod> parse_search_method(const std::string& text) {
  for (const SearchMethod method : kSearchMethods) {
    if (text == to_string(method)) return method;
  }
  return absl::InvalidArgumentError(fmt::format(
      "method '{}': unknown; write zip-line, zip-line-scan, zip-line-opt, zip-line-opt-bs, full-grid-scan, "
      "full-grid-scan-exact, grid-scan or naive",
      text));
}

double search_steps(SearchMethod method, const std::vector<std::size_t>& sizes) {
  double elements = 0;
  double selections = 1;
  for (const std::size_t size : sizes) {
    elements += static_cast<double>(size);
    selections *= static_cast<double>(size);
  }
  switch (method) {
    case SearchMethod::kZipLine:
      return elements;
    case SearchMethod::kZipLineScan:
    case SearchMethod::kZipLineOpt:
    case SearchMethod::kZipLineOptBs:
      return elements * static_cast<double>(sizes.size());
    case SearchMethod::kFullGridScan:
    case SearchMethod::kFullGridScanExact:
      return elements * elements;
    case SearchMethod::kGridScan:
      return static_cast<double>(*std::max_element(sizes.begin(), sizes.end())) * elements;
    case SearchMethod::kNaive:
      return selections * static_cast<double>(sizes.size());
  }
  return elements;
}

absl::StatusOr<Selection<NumberList>> search(SearchMethod method, const std::vector<NumberList>& lists) {
  if (lists.empty()) return absl::InvalidArgumentError("there is no list; give at least one");
  for (std::size_t k = 0; k < lists.size(); ++k) PACELINE_RETURN_IF_ERROR(check(lists[k], k));
  PACELINE_RETURN_IF_ERROR(check_steps(method, lists));
  switch (method) {
    case SearchMethod::kZipLine:
      return zip_line(lists);
    case SearchMethod::kZipLineScan:
      return zip_line_scan(lists);
    case SearchMethod::kZipLineOpt:
      return zip_line_opt(lists);
    case SearchMethod::kZipLineOptBs:
      return zip_line_opt_bs(lists);
    case SearchMethod::kFullGridScan:
      return full_grid_scan(lists);
    case SearchMethod::kFullGridScanExact:
      return full_grid_scan_exact(lists);
    case SearchMethod::kGridScan:
      return grid_scan(lists);
    case SearchMethod::kNaive:
      return naive(lists);
  }
  return zip_line(lists);
}

}  // namespace paceline::policy
