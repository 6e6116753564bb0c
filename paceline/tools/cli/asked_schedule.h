// The table of a job's schedule beside the one of its program. The program computes its table again on each host, so the
// last digits depend on the processor and on libraries.
#pragma once

#include <optional>

#include "paceline/formats/config/toml_text.h"

namespace paceline::cli {

// Factors of the optimizer's rate, from an epoch on.
struct ScheduleDifference {
  double epoch = 0;
  double said = 0;
  double wanted = 0;
};

// The first difference of two jobs' `schedule.table`, as functions and not as texts: other points may be those of the
// same schedule. Nothing if they are the same, or if one of them is no table of [epoch, factor].
std::optional<ScheduleDifference> schedule_difference(const toml::table& said, const toml::table& wanted);
// Whether both have such a table.
bool have_schedules(const toml::table& said, const toml::table& wanted);

}  // namespace paceline::cli
