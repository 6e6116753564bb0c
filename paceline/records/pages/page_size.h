// Documents cut to the size of a page: a page of many lanes keeps fewer intervals of each, so that a browser
// opens it at once. What is left out is counted like that of a long run. Pure.
#pragma once

#include <vector>

#include "paceline/records/pages/json_values.h"

namespace paceline::report {

// The limits for all runs of a page together. A single run of eight replicas keeps all that RunStats has
// kept.
inline constexpr std::size_t kIntervalsOfRun = 40'000;  // for a run alone on its page
inline constexpr std::size_t kIntervalsOfPage = 24'000;
inline constexpr std::size_t kActivityOfPage = 8'000;
inline constexpr std::size_t kGapsOfPage = 16'000;
inline constexpr std::size_t kGroupsOfPage = 5'000;
inline constexpr std::size_t kTrainingOfPage = 4'000;
inline constexpr std::size_t kReplicasOfPage = 2'000;
inline constexpr std::size_t kEventsOfPage = 2'000;

// `runs`: documents of report_json.
std::vector<Json> sized_for_page(std::vector<Json> runs);

}  // namespace paceline::report
