// Devices that were to take a given time an iteration, and took longer: the run's results are then not those
// of the devices that it was to imitate. Pure.
#pragma once

#include <string>

#include "paceline/records/stats/summary.h"

namespace paceline::report {

// "w2 took 364 ms an iteration instead of 100, …"; empty if every pace was kept, or there is none.
std::string missed_paces(const Summary& summary);

// Advice that follows such a text.
inline constexpr char kPaceAdvice[] =
    "this machine is too slow or too busy for them; --virtual models the times instead";

}  // namespace paceline::report
