// The tables of a sweep: for each row and column the time to the target and the accuracy at the end, and a
// comparison of one column with the others. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/records/pages/sweep_result.h"

namespace paceline::report {

struct SweepGrid {
  using Place = std::vector<SweepResult>;  // the trainings to average, as far as they are done

  std::string title;     // may be empty
  std::string row_head;  // "model, scenario"
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<Place>> places;  // indexed by row, then by column
  std::optional<std::size_t> compare;      // the column to compare the others with
  std::size_t each = 0;                    // the trainings of a place once all are done; 0: the present ones
  // Each row's target; nothing if its columns have different ones. Empty: no row has a target.
  std::vector<std::optional<Target>> targets{};
};

enum class TableStyle { kText, kMarkdown, kHtml };  // kHtml: a page of html.h

// Time to target: the mean of the trainings that met it, ± its standard error, and how many did if not all;
// "never" if none did. Accuracy: the mean, ± its standard error over the trainings. "–": no training, or no
// evaluation. Both say how many trainings diverged, and how many are missing. The comparison counts a column's time
// only if all its trainings met the target and none diverged, and its accuracy only if all were evaluated. The fastest of
// each row is named as in ranking.h, except in Markdown.
std::string sweep_tables(const SweepGrid& grid, TableStyle style);

}  // namespace paceline::report
