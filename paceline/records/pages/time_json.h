// The time of a run by cause, as JSON.
#pragma once

#include <string>

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/time_ledger.h"

namespace paceline::report {

// {wall_s, holds_back, devices: [{device, computing_s, waiting_s, …, waits: [{on, rule, s}]}],
// devices_left_out, waits: [{on, rule, s}]}; a key for each cause. Only the longest waits: 16 of a device,
// 1,000 of all.
Json time_json(const TimeLedger& ledger, const std::string& policy);

}  // namespace paceline::report
