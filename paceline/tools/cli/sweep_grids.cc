#include "paceline/tools/cli/sweep_grids.h"

#include <algorithm>

#include <absl/strings/str_join.h>

namespace paceline::cli {

namespace {

using Indices = std::vector<std::size_t>;

// The axes whose values make the rows.
Indices row_axes(const config::Sweep& sweep) {
  Indices axes;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (i != sweep.columns && i != sweep.mean_over) axes.push_back(i);
  }
  return axes;
}

std::string row_name(const config::Sweep& sweep, const Indices& axes, const config::SweepCell& cell) {
  return absl::StrJoin(axes, ", ", [&](std::string* out, std::size_t axis) {
    *out += sweep.axes[axis].values[cell[axis]].name;
  });
}

// One value for each axis except those of the rows.
std::vector<Indices> rows_alone(const config::Sweep& sweep, const config::SweepTable& table) {
  std::vector<Indices> values = table.values;
  values[sweep.columns].resize(1);
  if (sweep.mean_over) values[*sweep.mean_over].resize(1);
  return values;
}

// The trainings that are averaged at the place of `cell`.
std::vector<config::SweepCell> cells_at(const config::Sweep& sweep, const config::SweepTable& table,
                                        const config::SweepCell& cell) {
  std::vector<Indices> values;
  for (const std::size_t value : cell) values.push_back({value});
  if (sweep.mean_over) values[*sweep.mean_over] = table.values[*sweep.mean_over];
  return config::cells_of(values);
}

report::SweepGrid::Place place_of(const std::vector<config::SweepCell>& cells, const ResultOf& result_of) {
  report::SweepGrid::Place place;
  for (const config::SweepCell& one : cells) {
    if (const report::SweepResult* result = result_of(one)) place.push_back(*result);
  }
  return place;
}

bool same_target(const report::Target& a, const report::Target& b) {
  return a.metric == b.metric && a.value == b.value && a.at_most == b.at_most;
}

report::SweepGrid grid_of(const config::Sweep& sweep, const config::SweepTable& table,
                          const ResultOf& result_of, const TargetOf& target_of) {
  report::SweepGrid grid;
  grid.title = table.title;
  const Indices axes = row_axes(sweep);
  grid.row_head =
      absl::StrJoin(axes, ", ", [&](std::string* out, std::size_t axis) { *out += sweep.axes[axis].name; });
  grid.each = sweep.mean_over ? table.values[*sweep.mean_over].size() : 1;
  const Indices& columns = table.values[sweep.columns];
  for (const std::size_t column : columns) {
    if (column == sweep.compare) grid.compare = grid.columns.size();
    grid.columns.push_back(sweep.axes[sweep.columns].values[column].name);
  }
  for (config::SweepCell cell : config::cells_of(rows_alone(sweep, table))) {
    grid.rows.push_back(row_name(sweep, axes, cell));
    auto& places = grid.places.emplace_back();
    std::vector<report::Target> targets;
    for (const std::size_t column : columns) {
      cell[sweep.columns] = column;
      const std::vector<config::SweepCell> cells = cells_at(sweep, table, cell);
      places.push_back(place_of(cells, result_of));
      for (const config::SweepCell& one : cells) targets.push_back(target_of(one));
    }
    const bool alike = std::all_of(targets.begin(), targets.end(), [&](const report::Target& target) {
      return same_target(target, targets.front());
    });
    grid.targets.push_back(alike ? std::optional(targets.front()) : std::nullopt);
  }
  return grid;
}

}  // namespace

std::vector<report::SweepGrid> sweep_grids(const config::Sweep& sweep, const ResultOf& result_of,
                                           const TargetOf& target_of) {
  std::vector<report::SweepGrid> grids;
  for (const config::SweepTable& table : sweep.tables)
    grids.push_back(grid_of(sweep, table, result_of, target_of));
  return grids;
}

}  // namespace paceline::cli
