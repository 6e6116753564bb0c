// The output of a benchmark: a table for people, or one JSON object for each row for machines.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline::bench {

// Rows of named numbers; every row has the names of the first, in its order. NaN: no number.
class Table {
 public:
  using Row = std::vector<std::pair<std::string, double>>;
  // `label`: a text that tells the row apart besides its numbers; may be empty.
  void add(std::string label, Row row) { rows_.emplace_back(std::move(label), std::move(row)); }
  void print(bool json) const;

 private:
  std::vector<std::pair<std::string, Row>> rows_;
};

// A benchmark's main: fills a table and prints it, as JSON after --json. Returns the exit status.
int run(int argc, char** argv, void (*measure)(Table&));

// The middle value. Requires: not empty.
double median(std::vector<double> values);

}  // namespace paceline::bench
