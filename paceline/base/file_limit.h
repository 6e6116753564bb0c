// How many files a process may have open.
#pragma once

#include <sys/resource.h>

namespace paceline {

// Raises the limit to the most that the system allows: most systems begin with 1024, and a coordinator has a
// file open for every process of its job, and for strangers too.
inline void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace paceline
