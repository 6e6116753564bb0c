// What a benchmark prints: a table for people, or one JSON object a row for machines.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline::bench {

// Rows of named numbers; every row has the names of the first, in its order. NaN: there is none.
class Table {
 public:
  using Row = std::vector<std::pair<std::string, double>>;
  // `label`: what tells the row apart beside its numbers; empty: nothing.
  void add(std::string label, Row row) { rows_.emplace_back(std::move(label), std::move(row)); }
  void print(bool json) const;

 private:
  std::vector<std::pair<std::string, Row>> rows_;
};

// A benchmark's main: fills a table and prints it, as JSON after --json. The exit status.
int run(int argc, char** argv, void (*measure)(Table&));

// The middle one. Requires: not empty.
double median(std::vector<double> values);

}  // namespace paceline::bench
