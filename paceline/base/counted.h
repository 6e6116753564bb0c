// How many, in words. Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

std::string with_thousands(std::int64_t number);  // 12,345
// "1 re-plan", "2 re-plans".
std::string counted(std::int64_t number, const std::string& thing);

}  // namespace paceline
