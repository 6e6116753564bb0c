// The tables of a sweep: for each row and column the time to the target and the accuracy at the end, and how
// one column stands to the others. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/report/sweep_result.h"

namespace paceline::report {

struct SweepGrid {
  using Place = std::vector<SweepResult>;  // the trainings that are averaged, as far as they are there

  std::string title;     // may be empty
  std::string row_head;  // "model, scenario"
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<Place>> places;  // by row, then by column
  std::optional<std::size_t> compare;      // the column to hold the others to
  std::size_t each = 0;                    // trainings that a place has once all are there; 0: those it has
  // By row, what its trainings were to reach; nothing where that differs between its columns. Empty: no row
  // has one.
  std::vector<std::optional<Target>> targets{};
};

enum class TableStyle { kText, kMarkdown, kHtml };  // of a page: html.h

// Time to target: the mean of the trainings that met it, ± its standard error, and how many did where not
// all; "never" where none. Accuracy: the mean, ± its standard error over the trainings. "–": no training, or
// no evaluation. The comparison counts a column's time only where all its trainings met the target, and its
// accuracy only where all were evaluated. Who is the fastest in each row, but for Markdown, is said as
// ranking.h has it.
std::string sweep_tables(const SweepGrid& grid, TableStyle style);

}  // namespace paceline::report
