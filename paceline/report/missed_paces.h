// Devices that were to take a given time an iteration, and took longer: what a run says then is not of the
// devices that it was to imitate. Pure.
#pragma once

#include <string>

#include "paceline/report/summary.h"

namespace paceline::report {

// "w2 took 364 ms an iteration instead of 100, …"; empty where every pace was held, or there is none.
std::string missed_paces(const Summary& summary);

// What to do about it.
inline constexpr char kPaceAdvice[] =
    "this machine is too slow or too busy for them; --virtual models the times instead";

}  // namespace paceline::report
