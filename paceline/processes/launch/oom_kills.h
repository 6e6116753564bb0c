// The number of processes of this process's control group that the system has killed since the group was
// made, because the group's memory or the machine's was used up. A child that was killed while this number
// grew was one of them.
#pragma once

#include <cstdint>

namespace paceline::launch {

// 0 if the system does not tell.
std::int64_t oom_kills();

}  // namespace paceline::launch
