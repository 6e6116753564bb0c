#include "paceline/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paceline {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: a bug in paceline: %s does not hold: %s\n", file, line, condition,
               detail.c_str());
  std::abort();
}

}  // namespace paceline
