// A sweep's tables, filled with the results that are there.
#pragma once

#include <functional>
#include <vector>

#include "paceline/formats/config/sweep.h"
#include "paceline/records/pages/sweep_table.h"

namespace paceline::cli {

// The result of a cell; null when there is none.
using ResultOf = std::function<const report::SweepResult*(const config::SweepCell&)>;
// The target of a cell.
using TargetOf = std::function<report::Target(const config::SweepCell&)>;

// One for each table of the sweep. Rows are the values of the axes that are neither columns nor averaged.
std::vector<report::SweepGrid> sweep_grids(const config::Sweep& sweep, const ResultOf& result_of,
                                           const TargetOf& target_of);

}  // namespace paceline::cli
