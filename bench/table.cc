#include "bench/table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline::bench {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {
std::string text_of(double value) {
  if (std::isnan(value)) return "–";
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}
}  // namespace

void Table::print(bool json) const {
  for (const auto& [label, row] : rows_) {
    if (!json && &row == &rows_.front().second) {
      fmt::print("{:<20}", "");
      for (const auto& [name, value] : row)
        fmt::print("{:>{}}", name, std::max<std::size_t>(12, name.size() + 2));
      fmt::print("\n");
    }
    if (json) {
      nlohmann::ordered_json object;
      if (!label.empty()) object["name"] = label;
      for (const auto& [name, value] : row) object[name] = value;
      fmt::print("{}\n", object.dump());
      continue;
    }
    fmt::print("{:<20}", label);
    for (const auto& [name, value] : row) {
      const std::size_t width = std::max<std::size_t>(12, name.size() + 2);
      fmt::print("{:>{}}", text_of(value), width);
    }
    fmt::print("\n");
  }
}

int run(int argc, char** argv, void (*measure)(Table&)) {
  Table table;
  measure(table);
  table.print(argc > 1 && std::strcmp(argv[1], "--json") == 0);
  return 0;
}

}  // namespace paceline::bench
