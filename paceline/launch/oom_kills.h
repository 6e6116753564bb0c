// How many processes of this process's control group the system has killed since it was made, because the
// group's memory or the machine's was used up. A child that was killed while this grew was one of them.
#pragma once

#include <cstdint>

namespace paceline::launch {

// 0 where the system does not say.
std::int64_t oom_kills();

}  // namespace paceline::launch
