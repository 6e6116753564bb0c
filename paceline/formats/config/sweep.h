// A sweep, as sweep.toml describes it: one job with every combination of values of some axes, and the tables
// of the results. docs/sweep.md lists the keys. Plain values; every mistake is an InvalidArgument of one
// line.
//
// Invariant: the names of axes, and of the values of one axis, are unique and not empty; every index is
// valid; each table has a cell.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::config {

struct SweepValue {
  std::string name;
  std::vector<std::string> sets;  // "key=value", laid over the job
  std::vector<int> lines;         // line of each in the sweep's file
};

struct SweepAxis {
  std::string name;
  std::vector<SweepValue> values;
};

// One training: the index of a value for each axis.
using SweepCell = std::vector<std::size_t>;

struct SweepTable {
  std::string title;                             // may be empty
  std::vector<std::vector<std::size_t>> values;  // for each axis the values that the table has, ascending
};

struct Sweep {
  std::string job;  // a file beside the sweep's
  std::string out;  // folder of the results
  std::vector<SweepAxis> axes;
  std::size_t columns = 0;               // the axis whose values are a table's columns
  std::optional<std::size_t> mean_over;  // the axis that tables average; another one than `columns`
  std::optional<std::size_t> compare;    // the column with which tables compare the others
  std::vector<SweepTable> tables;        // at least one
};

absl::StatusOr<Sweep> parse_sweep(const std::string& text, const std::string& file);

// Every choice of one value of each axis, `values[axis]`; the last axis changes first.
std::vector<SweepCell> cells_of(const std::vector<std::vector<std::size_t>>& values);
// The cells of all tables, each once, in the order of the axes.
std::vector<SweepCell> cells_of(const Sweep& sweep);

// The settings over the job, in the order of the axes: a later axis overrides an earlier one.
std::vector<std::string> sets_of(const Sweep& sweep, const SweepCell& cell);
// An error of the job that begins with "--set " and one of the cell's settings begins instead with its place
// in the sweep. Other errors stay the same. `file`: the sweep's.
absl::Status said_by_sweep(const absl::Status& error, const Sweep& sweep, const SweepCell& cell,
                           const std::string& file);
// The names of the cell's values: "static-mix, BSP, 1".
std::string name_of(const Sweep& sweep, const SweepCell& cell);

}  // namespace paceline::config
