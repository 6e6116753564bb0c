// How long each search for a barrier takes, on the paper's sizes and beside the paper's own times: n replicas
// at intervals of 0.1 to 0.4 s, R ready times predicted for each. zip-line stands here twice: over stored
// lists, as the others, and over even times, which need no storage and are what ElasticBSP searches. The
// paper's ZipLine is zip-line-scan here.
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/policy/search_method.h"

namespace paceline::bench {
namespace {

using policy::EvenTimes;
using policy::NumberList;
using policy::SearchMethod;
using std::chrono::steady_clock;

struct Size {
  std::int64_t lists;
  std::int64_t elements;
  double paper_zip_line_us;  // NaN: not in the paper
  double paper_full_grid_scan_us;
};

constexpr double kNotInPaper = std::numeric_limits<double>::quiet_NaN();
constexpr Size kSizes[] = {{10, 15, 149, 1540},
                           {10, 150, 1320, 46'700},
                           {100, 15, 6370, 81'300},
                           {100, 150, 49'900, 2.15e6},
                           {1000, 15, 253'000, 4.04e6},
                           {1000, 150, 2.38e6, 2.07e8},
                           {100'000, 15, kNotInPaper, kNotInPaper}};

std::vector<EvenTimes> predictions(const Size& size) {
  Rng rng(1);
  std::vector<EvenTimes> lists;
  for (std::int64_t k = 0; k < size.lists; ++k) {
    const Duration interval = from_seconds(0.1 * (1 + 3 * rng.uniform()));
    const Time last(from_seconds(rng.uniform() * to_seconds(interval)));
    lists.push_back({last + interval, interval, static_cast<std::size_t>(size.elements)});
  }
  return lists;
}

std::vector<NumberList> stored(const std::vector<EvenTimes>& lists) {
  std::vector<NumberList> numbers(lists.size());
  for (std::size_t k = 0; k < lists.size(); ++k) {
    for (std::size_t i = 0; i < lists[k].size(); ++i) numbers[k].push_back(to_seconds(lists[k][i]));
  }
  return numbers;
}

// The median of nine runs, or of as many as begin within two seconds.
template <class Function>
double median_us(const Function& function) {
  std::vector<double> times;
  const auto start = steady_clock::now();
  while (times.size() < 9 && (times.empty() || steady_clock::now() - start < std::chrono::seconds(2))) {
    const auto before = steady_clock::now();
    function();
    times.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - before).count());
  }
  return median(times);
}

void add(Table& table, const std::string& name, const Size& size, double us, double paper_us) {
  table.add(name, {{"lists", static_cast<double>(size.lists)},
                   {"elements", static_cast<double>(size.elements)},
                   {"us", us},
                   {"paper_us", paper_us}});
}

double paper_us(SearchMethod method, const Size& size) {
  if (method == SearchMethod::kZipLineScan) return size.paper_zip_line_us;
  if (method == SearchMethod::kFullGridScan) return size.paper_full_grid_scan_us;
  return kNotInPaper;
}

void measure(Table& table) {
  for (const Size& size : kSizes) {
    const std::vector<EvenTimes> even = predictions(size);
    const std::vector<NumberList> lists = stored(even);
    add(table, "zip-line, even", size, median_us([&] { policy::zip_line(even); }), size.paper_zip_line_us);
    for (const SearchMethod method : policy::kSearchMethods) {
      absl::Status status;
      const double us = median_us([&] { status = policy::search(method, lists).status(); });
      if (status.ok()) {
        add(table, to_string(method), size, us, paper_us(method, size));
      } else {
        fmt::print(stderr, "left out, {} lists of {}: {}\n", size.lists, size.elements,
                   std::string(status.message()));
      }
    }
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
