// The priority of a process that first got only what others left.
#pragma once

#include <sys/types.h>

namespace paceline::launch {

// Gives all threads of `process` and of its descendants the priority of this process. No effect if the system does not allow
// it: on Linux a process without CAP_SYS_NICE may not raise a priority.
void raise_priority(pid_t process);

}  // namespace paceline::launch
