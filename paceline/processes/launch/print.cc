#include "paceline/processes/launch/print.h"

#include <atomic>
#include <cerrno>

namespace paceline::launch {

namespace {

std::atomic<int> first_error{0};

}  // namespace

void print(std::FILE* out, const std::string& text) {
  errno = 0;
  if (std::fputs(text.c_str(), out) >= 0 && std::fflush(out) == 0) return;
  int none = 0;
  if (out == stdout && errno != EPIPE) first_error.compare_exchange_strong(none, errno == 0 ? EIO : errno);
}

int stdout_error() { return first_error; }

}  // namespace paceline::launch
