#include "paceline/processes/peer/refused_log.h"

#include <chrono>
#include <mutex>

#include <spdlog/spdlog.h>

#include "paceline/base/line_limit.h"

namespace paceline::peer {

namespace {

// One for the whole process, because gRPC's log is one too.
struct Refused {
  std::mutex mutex;
  LineLimit limit;
};

Refused& all_refused() {
  static Refused all;
  return all;
}

}  // namespace

void warn_of_refused(const std::string& line) {
  const std::lock_guard lock(all_refused().mutex);
  if (all_refused().limit.take(std::chrono::steady_clock::now())) spdlog::warn("{}", line);
}

void say_how_many_more() {
  const std::lock_guard lock(all_refused().mutex);
  const std::int64_t more = all_refused().limit.left_out(std::chrono::steady_clock::now());
  if (more > 0) spdlog::warn("refused {} more in the last {} s", more, LineLimit::kSayEvery.count());
}

}  // namespace paceline::peer
